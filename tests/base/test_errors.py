from __future__ import annotations

from plackett.base.errors import DataError, unknown_name


def test_an_unknown_name_is_answered_with_the_closest_one_and_all_of_them() -> None:
    error = unknown_name("preset", "A-web3k", ["A-web30k", "A-yahoo"], of="lambdamart")
    assert str(error) == (
        "there is no preset 'A-web3k' of 'lambdamart'. Did you mean 'A-web30k'? There are: A-web30k, A-yahoo."
    )
    assert str(unknown_name("metric", "x", ["ndcg"])) == "there is no metric 'x'. There are: ndcg."


def test_a_data_error_names_file_line_and_column() -> None:
    error = DataError("feature index 0", path="train.txt", line=7, column=9)
    assert str(error) == "train.txt:7: feature index 0 (column 9)"
