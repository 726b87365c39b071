"""The paper's tables and figures, measured again: `mechtrace reproduce`.

Enters: names of tables and a scale (`models`). Happens: `plan` lists the entries of each table and
the source behind each figure: a trained model with its `measures`, a method of the comparison
(`compared_methods`), the study of the theorems (`theorems`) or one of pictures and recordings
(`real_data`); `run` computes what is not stored yet. Leaves: rows in a folder, tables that show
the paper, Algorithm 1, mechtrace and the oracle `side_by_side`, and `figures`.
"""
