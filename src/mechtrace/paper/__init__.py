"""The paper's tables and figures, measured again: `mechtrace reproduce`.

`tables` has the printed numbers. Ours stand on a trained model (`models`), of which `measures` are
asked, on a method of the contest (`contestants`), on the study of the theorems (`theorems`) or on
one of pictures and recordings (`studied`). `entries` are cells of tables, `plan` says which make
up each table, `run` computes what is missing, and `compare` puts paper, Algorithm 1, our default
and the oracle side by side.
"""
