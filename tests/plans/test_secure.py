"""Secure sums: exact, whoever drops out; unreadable; over functions, files and commands."""

import pickle
import re
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recyclegp as rgp
from cases_cli import answer
from recyclegp.models.secure_sum import SumCoordinator
from recyclegp.models.sum_files import gather, take_part
from recyclegp.models.sum_owner import SumOwner
from recyclegp.models.sum_terms import STAGES, Terms
from recyclegp.plans import masking, shamir
from recyclegp.plans.sums import NOISY

PLAN = rgp.Plan(points=rgp.Plan.grid([0], [1], 8), kernel="rbf(outputscale=1, lengthscale=0.2)", noise=0.09)
PRIVACY = rgp.Privacy(epsilon=1, delta=1e-6, bound=3.0)


def rows_of(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 1))
    return X, np.sin(8 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def summed(numbers, threshold=None, drop=()):
    """A whole sum; `drop` has pairs (stage, name)."""
    terms = Terms.new("something", list(numbers), threshold, len(next(iter(numbers.values()))))
    gathering = SumCoordinator(terms)
    owners = {n: SumOwner(Terms.of(gathering.message(n)), n, lambda n=n: numbers[n]) for n in numbers}
    masked = {}
    for stage in range(len(STAGES)):
        for name in gathering.waiting_for:
            if (stage, name) in drop:
                continue
            sent = owners[name].message if stage == 0 else owners[name].reply(gathering.message(name))
            if stage == 2:
                masked[name] = sent
            gathering.receive(sent)
        gathering.advance()
    return gathering, gathering.total().view(np.int64), masked


def numbers_of(owners, count=50, seed=0):
    rng = np.random.default_rng(seed)
    return {f"o{i}": rng.integers(-(2**50), 2**50, count) for i in range(owners)}


@given(people=st.integers(1, 9), data=st.data(), secret=st.binary(min_size=32, max_size=32))
@settings(max_examples=40, deadline=None)
def test_any_so_many_shares_are_the_secret(people, data, secret):
    threshold = data.draw(st.integers(1, people))
    shares = dict(enumerate(shamir.split(secret, threshold, people), 1))
    who = data.draw(st.permutations(sorted(shares)))[:threshold]
    assert shamir.joined({i: shares[i] for i in who}, shamir.weights(tuple(who)), 32) == secret


def test_fewer_shares_say_nothing():
    """With one share less, every secret is as likely: some polynomial passes through it and what is known."""
    shares = shamir.split(bytes(31) + b"\x07", 3, 5)
    known = {1: shares[0], 2: shares[1]}
    for guess in (0, 7, 12345):  # the third share that would make it so
        by = shamir.weights((1, 2, 3))
        two = sum(by[i] * int.from_bytes(s, "big") for i, s in known.items())
        third = (guess - two) * pow(by[3], -1, shamir.PRIME) % shamir.PRIME
        found = shamir.joined({**known, 3: third.to_bytes(shamir.BYTES, "big")}, by, 32)
        assert int.from_bytes(found, "big") == guess


@pytest.mark.parametrize(
    "drop",
    [(), ((1, "o2"),), ((2, "o0"), (2, "o9")), ((0, "o1"), (1, "o5"), (2, "o7")), ((3, "o3"), (3, "o4"))],
    ids=["nobody", "before shares", "two before numbers", "one at each", "two at the end"],
)
def test_the_sum_of_ten_is_exact_whoever_drops_out(drop):
    numbers = numbers_of(10)
    gathering, total, _ = summed(numbers, drop=drop)
    gone = {name for stage, name in drop if stage < 3}
    assert set(gathering.survivors) == set(numbers) - gone
    np.testing.assert_array_equal(total, sum(numbers[n] for n in gathering.survivors))


def test_too_few_open_nothing():
    numbers = numbers_of(5)
    with pytest.raises(rgp.RecycleGPError, match="only 3 owners have answered, and 4 are needed"):
        summed(numbers, drop={(2, "o0"), (2, "o1")})
    with pytest.raises(rgp.RecycleGPError, match="more than half"):
        summed(numbers, threshold=2)
    terms = Terms.new("x", ["a", "b", "c"], 3, 1)
    owner = SumOwner(terms, "a", lambda: np.zeros(1, np.int64))
    with pytest.raises(TypeError, match="secrets"):
        pickle.dumps(owner)


def test_what_is_sent_cannot_be_told_from_noise():
    """Of numbers that are all zero: bytes are uniform, words uncorrelated, and nothing of two sums is alike."""
    zero = {f"o{i}": np.zeros(20_000, np.int64) for i in range(3)}
    _, total, masked = summed(zero)
    assert not total.any()
    words = {n: np.frombuffer(m[-160_000:], np.uint64) for n, m in masked.items()}
    again = np.frombuffer(summed(zero)[2]["o0"][-160_000:], np.uint64)
    for own in (*words.values(), again):
        counts = np.bincount(own.view(np.uint8), minlength=256)
        assert 150 < ((counts - 625.0) ** 2 / 625.0).sum() < 400  # χ² of 255 degrees of freedom
    floats = np.stack([own / 2.0**64 for own in (*words.values(), again)])
    assert np.abs(np.corrcoef(floats)[~np.eye(4, dtype=bool)]).max() < 0.05
    assert len(np.intersect1d(words["o0"], again)) < 5


def test_an_owner_answers_each_message_once_and_never_both_shares():
    terms = Terms.new("x", ["a", "b", "c"], 2, 1)
    gathering = SumCoordinator(terms)
    owners = {n: SumOwner(terms, n, lambda: np.ones(1, np.int64)) for n in terms.names}
    for n in terms.names:
        gathering.receive(owners[n].message)
    gathering.advance()
    keys = gathering.message("a")
    with pytest.raises(rgp.RecycleGPError, match="of another secure sum"):
        owners["a"].reply(SumCoordinator(Terms.new("x", ["a", "b"], 2, 1)).message("a"))
    for n in terms.names:
        gathering.receive(owners[n].reply(keys))
    assert len({owner.fingerprint for owner in owners.values()}) == 1
    with pytest.raises(rgp.RecycleGPError, match="each is answered once"):
        owners["a"].reply(keys)
    gathering.advance()
    for n in ("a", "b"):
        gathering.receive(owners[n].reply(gathering.message(n)))
    gathering.advance()
    first = gathering.message("a")
    gathering.receive(owners["a"].reply(first))
    with pytest.raises(rgp.RecycleGPError, match="each is answered once"):  # with other survivors it would open both
        owners["a"].reply(first)
    assert owners["a"].done
    assert not hasattr(owners["a"], "_mask_key")


MESSAGES = {}


def conversation():
    """Every message of a sum, with the state in which it is read."""
    if not MESSAGES:
        terms = Terms.new("x", ["a", "b"], 2, 3)
        MESSAGES["invitation"] = terms.invitation()
        owner = SumOwner(terms, "a", lambda: np.zeros(3, np.int64))
        MESSAGES["key"] = owner.message
        _, _, masked = summed({"a": np.zeros(3, np.int64), "b": np.ones(3, np.int64)})
        MESSAGES["masked"] = masked["a"]
    return MESSAGES


@given(data=st.data(), kind=st.sampled_from(["invitation", "key", "masked"]))
@settings(max_examples=300, deadline=None)
def test_broken_messages_are_refused_with_one_error(data, kind):
    good = conversation()[kind]
    broken = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
        broken = broken or bytearray(b"x")
    terms = Terms.new("x", ["a", "b"], 2, 3)
    for read in (Terms.of, SumCoordinator(terms).receive, SumOwner(terms, "a", lambda: np.zeros(3, np.int64)).reply):
        try:
            read(bytes(broken))
        except rgp.RecycleGPError:
            continue


def test_a_message_of_each_stage_may_be_anything():
    """Fields of another kind, at every stage, of an owner who is in the middle of a sum."""
    from recyclegp.models import sum_messages

    terms = Terms.new("x", ["a", "b"], 2, 3)
    wrong = (None, 3, "x", [], {}, {"a": 1}, {"a": ["00", "11"], "b": None}, ["a"], ["a", "a"], [["a"], "b"])
    for stage, (kind, field) in enumerate((("keys", "keys"), ("sealed", "sealed"), ("survivors", "survivors")), 1):
        owner = SumOwner(terms, "a", lambda: np.zeros(3, np.int64))
        assert owner.message
        owner._stage = stage
        for value in wrong:
            with pytest.raises(rgp.RecycleGPError):
                owner.reply(sum_messages.packed(kind, terms.session, "", {field: value}))
    for kind, field in (("key", "keys"), ("shares", "sealed"), ("masked", "x"), ("opened", "shares")):
        gathering = SumCoordinator(terms)
        gathering._stage = STAGES.index(kind)
        gathering._keys = dict.fromkeys("ab")
        gathering._shares = gathering._masked = {}
        for value in wrong:
            with pytest.raises(rgp.RecycleGPError):
                gathering.receive(sum_messages.packed(kind, terms.session, "a", {field: value}))


def test_what_is_too_large_is_refused_at_home():
    X, y = rows_of(0, 20)
    gathering = rgp.SecureSum(PLAN, ["a", "b"])
    with pytest.raises(rgp.RecycleGPError, match="outside the range that was agreed on"):
        rgp.join_sum(PLAN, gathering.message("a"), X, 1e9 * y, name="a")
    with pytest.raises(rgp.RecycleGPError, match="another privacy"):
        rgp.join_sum(PLAN, gathering.message("a"), X, y, name="a", privacy=PRIVACY)
    with pytest.raises(rgp.RecycleGPError, match="not among those who were invited"):
        rgp.join_sum(PLAN, gathering.message("a"), X, y, name="c")
    assert np.array_equal(masking.fixed(np.array([1.5]), np.array([0.25]), 9), [6])


def test_a_plain_secure_sum_is_the_answer_of_all_rows():
    X, y = rows_of(1, 120)
    found = rgp.secure_round(PLAN, {f"o{i}": (X[i::4], y[i::4]) for i in range(4)})
    whole = PLAN.contribute(X, y, name="all", privacy="things", slopes=False).facts.sums[0]
    for name in NOISY:
        np.testing.assert_allclose(getattr(found.facts.sums[0], name), getattr(whole, name), rtol=1e-7, atol=1e-6)
    assert found.rows == 120
    e, _ = rgp.rounds({f"o{i}": (X[i::4], y[i::4]) for i in range(4)}, plan=PLAN, secure=True)
    np.testing.assert_allclose(e.predict(X)[0], found.predict(X)[0], atol=1e-6)
    with pytest.raises(rgp.RecycleGPError, match="a plan is missing"):
        rgp.rounds({"a": (X, y), "b": (X, y)}, secure=True)
    assert found.disclosure.guaranteed is None
    np.testing.assert_allclose(found.predict(X)[0], PLAN.combine([found])[0].predict(X)[0], atol=1e-9)


def test_noise_is_shared_out_and_owners_who_fail_are_left_behind(tmp_path):
    """Noise of honest owners together is that of one alone; each who stays beyond these adds a little."""
    X, y = rows_of(2, 3000)

    def fails(message):
        raise ConnectionError("gone")

    owners = {f"o{i}": (X[i::3], y[i::3]) for i in range(3)} | {"gone": fails}
    ledgered = rgp.Privacy(1, 1e-6, 3.0, ledger=tmp_path / "ledger.json", budget=50)  # here all owners write in one
    with pytest.warns(rgp.RecycleGPWarning, match="gone does not answer"):
        found = rgp.secure_round(PLAN, owners, privacy=ledgered, honest=2)
    one = PLAN.contribute(X, y, name="all", privacy=PRIVACY)
    np.testing.assert_allclose(found.facts.sums[0].noise, one.facts.sums[0].noise * 3 / 2, rtol=1e-5)
    assert found.facts.guaranteed == PRIVACY.guaranteed._replace(owners=3, honest=2)
    assert found.facts.guaranteed.words.endswith("per row, sums over 3 owners of whom 2 are honest")
    assert abs(found.rows - 3000) < 2000
    assert (tmp_path / "ledger.json").read_text().count("secure sum") == 3
    e, following = PLAN.combine([found])
    assert e.disclosure.guaranteed == found.facts.guaranteed
    assert following.done


def why_refused(owners, privacy):
    """What a secure round says that comes to nothing; no words where it does not."""
    try:
        rgp.secure_round(PLAN, owners, privacy=privacy)
    except rgp.RecycleGPError as too_few:
        return str(too_few)
    return ""


def test_a_ledger_that_refuses_says_so(tmp_path):
    """The coordinator's message is good; what the owner would say with it is too much."""
    ledgered = rgp.Privacy(1, 1e-6, 3.0, ledger=tmp_path / "ledger.json", budget=1)
    PLAN.contribute(*rows_of(0, 500), name="o0", privacy=ledgered)
    owners = {"o0": rows_of(0, 500)} | {f"o{i}": rows_of(i, 500) for i in (1, 2, 3)}
    with pytest.warns(rgp.RecycleGPWarning, match="o. does not answer: .*the budget is ε = 1; nothing was sent"):
        refused = why_refused(owners, ledgered)  # all write into one ledger here, so that nobody may say more
    assert "malformed" not in refused


def test_over_files(tmp_path):
    """Three owners, each in its own thread; another sum does not begin in the same folder."""
    X, y = rows_of(3, 300)
    names, failed = ["north", "south/east", "west"], []

    def owner(i, name):
        try:
            take_part(PLAN, tmp_path, X[i::3], y[i::3], name=name, timeout=60)
        except Exception as wrong:  # told to the test
            failed.append(wrong)

    threads = [threading.Thread(target=owner, args=each) for each in enumerate(names)]
    for thread in threads:
        thread.start()
    found = gather(rgp.SecureSum(PLAN, names), tmp_path, timeout=60)
    for thread in threads:
        thread.join()
    assert not failed
    assert found.rows == 300
    assert len(list(tmp_path.glob("*.sum"))) == 2 * 4 * 3
    with pytest.raises(rgp.RecycleGPError, match="a folder of its own"):
        gather(rgp.SecureSum(PLAN, names), tmp_path, timeout=1)


def test_by_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rgp.Plan(points=rgp.Plan.grid([0], [1], 8), kernel="rbf", noise=0.09, columns=["x"]).save("plan.safetensors")
    for i, name in enumerate(("north", "south")):
        X, y = rows_of(i, 200)
        np.savetxt(f"{name}.csv", np.c_[X, y], delimiter=",", header="x,y", comments="")
    how = ["--epsilon", "1", "--delta", "1e-6", "--bound", "3", "--folder", "s", "--timeout", "60"]
    agreed = rgp.load("plan.safetensors")
    own = {n: np.loadtxt(f"{n}.csv", delimiter=",", skiprows=1) for n in ("north", "south")}
    owners = [
        threading.Thread(
            target=take_part,
            args=(agreed, "s", v[:, :1], v[:, 1]),
            kwargs={"name": n, "timeout": 60, "privacy": PRIVACY},
        )
        for n, v in own.items()
    ]
    for thread in owners:
        thread.start()
    said = answer(
        "gather-sum", "plan.safetensors", "--owner", "north", "--owner", "south", *how, "-o", "sum.safetensors"
    )
    for thread in owners:
        thread.join()
    assert said["privacy_guarantee"] == "private: ε = 1, δ = 1e-06 per row, sums over 2 owners of whom 2 are honest"
    assert said["owners"] == ["north", "south"]


def test_join_sum_by_command(tmp_path, monkeypatch):
    """The coordinator is here, the owners are a command and a pair of arrays."""
    monkeypatch.chdir(tmp_path)
    agreed = rgp.Plan(points=rgp.Plan.grid([0], [1], 8), kernel="rbf", noise=0.09, columns=["x"])
    agreed.save("plan.safetensors")
    X, y = rows_of(0, 200)
    np.savetxt("north.csv", np.c_[X, y], delimiter=",", header="x,y", comments="")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(gather(rgp.SecureSum(agreed, ["north", "south"]), "s", 60))),
        threading.Thread(target=take_part, args=(agreed, "s", X, y), kwargs={"name": "south", "timeout": 60}),
    ]
    for thread in threads:
        thread.start()
    said = answer("join-sum", "plan.safetensors", "north.csv", "-t", "y", "--folder", "s", "--timeout", "60")
    for thread in threads:
        thread.join()
    assert said["name"] == "north"
    assert len(said["keys"].split()) == 6
    assert found[0].rows == 400


def test_the_python_of_the_page(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it saves a plan and a table
    page = (Path(__file__).parents[2] / "docs" / "private-answers.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.S):
        exec(block, names)
    assert capsys.readouterr().out == "".join(re.findall(r"```text\n(.*?)```", page, flags=re.S))
    assert np.mean(np.abs(names["e"].predict(names["X"])[0] - np.sin(8 * names["X"][:, 0])) < 0.3) > 0.9


@pytest.mark.slow
def test_fifty_owners_at_256_points_take_seconds():
    """Everything but the sums over rows themselves, all on one core."""
    numbers = numbers_of(50, 256 * 257 // 2 + 2 * 256 + 4)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gathering, total, _ = summed(numbers, drop={(2, "o7"), (2, "o8")})
    assert time.process_time() - begun < 20
    np.testing.assert_array_equal(total, sum(numbers[n] for n in gathering.survivors))


def test_an_owner_goes_on_in_another_process():
    """Every message is answered by an owner made anew, from what the one before has held."""
    numbers = numbers_of(4)
    gathering = SumCoordinator(Terms.new("something", list(numbers), 3, 50))
    asked = []

    def owner(name, held=None):
        made = SumOwner(Terms.of(invitations[name]), name, lambda: (asked.append(name), numbers[name])[1])
        if held is not None:
            made.go_on(held)
        return made

    invitations = {name: gathering.message(name) for name in numbers}
    held = {}
    for name in numbers:
        first = owner(name)
        gathering.receive(first.message)
        held[name] = first.held()
    for stage in (1, 2, 3):
        gathering.advance()
        for name in gathering.waiting_for:
            if (stage, name) == (2, "o1"):
                continue  # it drops out
            now = owner(name, held[name])
            gathering.receive(now.reply(gathering.message(name)))
            if stage == 3:
                with pytest.raises(rgp.RecycleGPError, match="secrets are gone"):
                    now.held()
            else:
                held[name] = now.held()
            with pytest.raises(rgp.RecycleGPError, match="another secure sum, or this one has begun"):
                now.go_on(held[name])
    gathering.advance()
    assert asked == ["o0", "o2", "o3"]
    np.testing.assert_array_equal(gathering.total().view(np.int64), sum(numbers[n] for n in ("o0", "o2", "o3")))


def test_an_invitation_about_brackets_within_brackets_is_malformed():
    plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf", noise=0.1)
    invitation = Terms.new("[" * 100_000, ["north", "south", "west"], None, 5).invitation()
    x = np.linspace(0, 6, 30)
    with pytest.raises(rgp.RecycleGPError, match="malformed; ask for it again"):
        rgp.join_sum(plan, invitation, x, np.sin(x), name="north")


def test_what_an_invitation_says_cannot_write_to_the_terminal():
    plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf", noise=0.1)
    invitation = Terms.new('{"honest": 2, "plan": "\u202e\u2028"}', ["north", "south"], None, 5).invitation()
    x = np.linspace(0, 6, 30)
    with pytest.raises(rgp.RecycleGPError, match="this invitation is to another plan") as refused:
        rgp.join_sum(plan, invitation, x, np.sin(x), name="north")
    assert str(refused.value).isprintable()
