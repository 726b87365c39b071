"""The paper's tables and figures, measured again: `mechtrace reproduce`.

`tables` has the printed numbers, `models` says what is trained, `measures` what is asked of a
trained model, `plan` which of both make up each table, `run` computes what is missing, and
`compare` puts paper, Algorithm 1, our default and the oracle side by side.
"""
