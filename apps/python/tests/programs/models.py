"""The module `mowgli`: `models.py TEST MODEL`."""

import sys

import mowgli

test = open(sys.argv[1]).read()
verdicts = mowgli.check(test)
assert {verdict.model for verdict in verdicts} >= {"rdma-tso", "sc"}, verdicts
assert all(verdict.as_expected in (True, None) for verdict in verdicts), verdicts
one, = mowgli.check(test, model="rdma-tso")
assert one.verdict in ("allowed", "forbidden", "required") and one.positive + one.negative == len(one.outcomes), one
assert one.outcomes[0].endswith(";"), one.outcomes
assert "under rdma-tso" in repr(one), one
assert len(mowgli.check(test, model=["rdma-tso", "sc"])) == 2
by_file, = mowgli.check(test, model=sys.argv[2])
assert by_file.verdict == one.verdict and by_file.model == sys.argv[2], by_file
assert "rdma-tso" in mowgli.models()


def refuses(words, *arguments):
    try:
        mowgli.check(*arguments)
    except mowgli.Error as error:
        assert all(word in str(error) for word in words), error
        return error
    raise AssertionError(words)


assert refuses([], test.replace("exists", "exits")).line is not None
refuses(["rdma-tos", "rdma-tso"], test, "rdma-tos")
refuses(["gone.cat"], test, "gone.cat")
tso, = mowgli.check(test, model="tso")
assert tso.verdict is None and "remote operations" in tso.not_applicable, tso
print("verdicts are as stated")
