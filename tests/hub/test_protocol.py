"""Signed requests: every field counts, nonces pass once, also after a restart; the log cannot be changed unnoticed."""

import json

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from recyclegp.errors import RecycleGPError
from recyclegp.hub import audit, protocol, receipts
from recyclegp.hub.home import Home, token_of, with_fingerprint
from recyclegp.hub.limits import Buckets, Rate
from recyclegp.hub.nonces import Nonces
from recyclegp.hub.protocol import RefusedError
from recyclegp.hub.registry import Admission, Registry, Role, Standing

KEY, OTHER, HUB = (Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(3))
NOW = 1_700_000_000
BODY = protocol.digest_of(b"body")


def signed(key=KEY, method="PUT", path="/module?x=1", name="ward 7 ü", hub=HUB, now=NOW):
    return protocol.headers(key, method, path, name, BODY, protocol.raw(hub), now)


def check(headers, method="PUT", path="/module?x=1", hub=HUB, now=NOW):
    return protocol.verified(method, path, headers, protocol.raw(hub), now)


def test_what_was_signed_is_what_is_read():
    said = check(signed())
    assert (said.name, said.digest, said.time) == ("ward 7 ü", BODY, NOW)
    assert said.key == protocol.raw(KEY)


def test_every_part_is_signed():
    headers = signed()
    for changed in ({"method": "GET"}, {"path": "/module?x=2"}, {"path": "/module"}, {"hub": OTHER}):
        with pytest.raises(RefusedError, match="not one of the key"):
            check(headers, **changed)
    forged = {
        protocol.NAME: "ward%208",
        protocol.TIME: str(NOW + 1),
        protocol.NONCE: "0" * 32,
        protocol.DIGEST: protocol.digest_of(b"another"),
        protocol.KEY: signed(OTHER)[protocol.KEY],
        protocol.SIGNATURE: signed(OTHER)[protocol.SIGNATURE],
    }
    for name, value in forged.items():
        with pytest.raises(RefusedError):
            check({**headers, name: value})
        with pytest.raises(RefusedError):
            check({k: v for k, v in headers.items() if k != name})


@given(st.dictionaries(st.sampled_from(sorted(signed())), st.text(max_size=60)))
def test_whatever_headers_hold_is_refused_in_words(changed):
    original = signed()
    headers = {**original, **changed}
    if headers != original:
        with pytest.raises(RefusedError):
            check(headers)


def test_clocks_may_differ_a_little():
    assert check(signed(now=NOW - protocol.WINDOW))
    for off in (protocol.WINDOW + 1, -protocol.WINDOW - 1):
        with pytest.raises(RefusedError, match="clocks differ"):
            check(signed(now=NOW + off))


def test_an_answer_belongs_to_its_question():
    nonce, digest = "ab" * 16, protocol.digest_of(b"answer")
    found = protocol.answer_headers(HUB, nonce, 200, digest)
    protocol.check_answer(protocol.raw(HUB), nonce, 200, digest, found)
    others = [(OTHER, nonce, 200, digest), (HUB, "cd" * 16, 200, digest), (HUB, nonce, 403, digest)]
    for hub, number, status, content in [*others, (HUB, nonce, 200, protocol.digest_of(b"other"))]:
        with pytest.raises(RefusedError):
            protocol.check_answer(protocol.raw(hub), number, status, content, found)


def test_a_nonce_passes_once_also_after_a_restart(tmp_path):
    one, two = check(signed()), check(signed())
    nonces = Nonces(tmp_path / "nonces", NOW)
    nonces.once(one, NOW)
    with pytest.raises(RefusedError, match="made before"):
        nonces.once(one, NOW + 1)
    nonces.close()
    with open(tmp_path / "nonces", "a") as stream:
        stream.write("17000")  # half a line, of a hub that was killed
    again = Nonces(tmp_path / "nonces", NOW + 5)
    with pytest.raises(RefusedError, match="made before"):
        again.once(one, NOW + 5)
    again.once(two, NOW + 5)
    again.close()
    later = Nonces(tmp_path / "nonces", NOW + 10 * protocol.WINDOW)
    assert (tmp_path / "nonces").read_text() == ""  # what the clock would refuse is forgotten
    later.close()


def test_the_log_shows_every_change(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = audit.Audit(path)
    for i in range(5):
        head = log.append("came", name=f"ward {i} ü")
    log.close()
    assert audit.verify(path) == 5
    again = audit.Audit(path)
    assert again.head == head
    again.close()
    lines = path.read_bytes().splitlines(keepends=True)
    entry = json.loads(lines[2])
    for forged in (
        [*lines[:2], json.dumps({**entry, "name": "x"}).encode() + b"\n", *lines[3:]],
        [*lines[:2], *lines[3:]],
        [lines[1], lines[0], *lines[2:]],
        [*lines[:2], b"{}\n", *lines[3:]],
    ):
        path.write_bytes(b"".join(forged))
        with pytest.raises(RecycleGPError, match="has been changed"):
            audit.verify(path)
        with pytest.raises(RecycleGPError, match="has been changed"):
            audit.Audit(path)
    path.write_bytes(b"".join(lines)[:-7])  # the last line was being written when the hub was killed
    healed = audit.Audit(path)
    healed.append("came", name="next")
    healed.close()
    assert audit.verify(path) == 5
    assert path.with_name("audit.jsonl.torn").read_bytes().strip() == lines[-1][:-7]


def test_what_answers_have_cost_is_in_the_log(tmp_path):
    """ε and δ of one owner add up; an answer that comes again is the same answer."""
    log = audit.Audit(tmp_path / "audit.jsonl")
    said = {"by": "north", "private": {"epsilon": 0.5, "delta": 1e-6}}
    log.append("answered", answer="a", **said)
    log.append("answered", answer="a", **said)
    log.append("answered", message="b", **said)
    log.append("answered", answer="c", by="south")
    log.append("withdrew", by="north")  # nobody can take it back
    for one in (log, audit.Audit(tmp_path / "audit.jsonl")):
        assert one.followed.spent("north") == pytest.approx((1.0, 2e-6))
        assert one.followed.spent("south") is None
        one.close()


def test_names_belong_to_keys(tmp_path):
    registry = Registry(tmp_path, 3)
    one, two = protocol.raw(KEY), protocol.raw(OTHER)
    north = registry.register(one, "North", None, Admission.OPEN, NOW)
    assert north.standing is Standing.IN
    assert registry.register(one, "North", None, Admission.OPEN, NOW + 1) == north
    for stolen in ("North", "north", "NORTH ", "\uff2eorth"):
        with pytest.raises(RefusedError, match="another key"):
            registry.register(two, stolen, None, Admission.OPEN, NOW)
    with pytest.raises(RefusedError, match="registered as"):
        registry.register(one, "South", None, Admission.OPEN, NOW)
    registry.change("North", Standing.OUT)
    with pytest.raises(RefusedError, match="another key"):  # also of somebody who has left
        Registry(tmp_path, 3).register(two, "North", None, Admission.OPEN, NOW)
    back = registry.register(one, "North", None, Admission.OPEN, NOW)
    assert back.standing is Standing.WAITING  # and who was sent away is not let in by asking


def test_invitations_let_one_in_once(tmp_path):
    registry = Registry(tmp_path, 9)
    token = registry.invite(Role.READER)
    with pytest.raises(RefusedError, match="invitation is needed"):
        registry.register(protocol.raw(KEY), "a", None, Admission.INVITED, NOW)
    with pytest.raises(RefusedError, match="not good"):
        registry.register(protocol.raw(KEY), "a", "../people", Admission.INVITED, NOW)
    person = registry.register(protocol.raw(KEY), "a", token, Admission.INVITED, NOW)
    assert (person.role, person.standing) == (Role.READER, Standing.IN)
    with pytest.raises(RefusedError, match="was used"):
        Registry(tmp_path, 9).register(protocol.raw(OTHER), "b", token, Admission.INVITED, NOW)
    assert Registry(tmp_path, 9).get(protocol.raw(KEY)) == person
    waiting = registry.register(protocol.raw(OTHER), "b", None, Admission.APPROVED, NOW)
    assert waiting.standing is Standing.WAITING
    assert registry.change("b", Standing.IN).standing is Standing.IN


def test_an_invitation_is_to_one_hub():
    text = with_fingerprint("12ab", protocol.raw(HUB))
    assert token_of(f" {text}\n", protocol.raw(HUB)) == "12ab"
    with pytest.raises(RefusedError, match="another hub"):
        token_of(text, protocol.raw(OTHER))


def test_buckets_fill_again():
    buckets = Buckets(Rate(2, 3))
    assert [buckets.take("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b", 0.0)
    assert buckets.empty("a", 0.4)
    assert buckets.take("a", 0.5)
    assert not buckets.take("a", 0.5)


def test_a_receipt_is_the_hubs_own_word(tmp_path):
    name = receipts.promise(tmp_path, {"name": "ü", "key": "ab" * 32, "module": None, "withdrawn": 1.5})
    ((path, facts),) = receipts.owed(tmp_path)
    assert path.stem == name == receipts.last_of(tmp_path, "ab" * 32)
    receipts.sign(path, facts, HUB)
    assert receipts.owed(tmp_path) == []
    found = json.loads(path.read_text())
    receipts.check(found, protocol.raw(HUB))
    with pytest.raises(RefusedError):
        receipts.check(found, protocol.raw(OTHER))
    with pytest.raises(RefusedError):
        receipts.check({**found, "receipt": {**found["receipt"], "name": "x"}}, protocol.raw(HUB))


def test_a_home_keeps_its_key_to_itself(tmp_path):
    home = Home(tmp_path / "north.hub")
    home.make()
    first = protocol.raw(home.key())
    assert protocol.raw(home.key()) == first
    assert (home.folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert home.folder.stat().st_mode & 0o777 == 0o700
    (home.folder / "key.pem").chmod(0o644)
    with pytest.raises(RecycleGPError, match="chmod 600"):
        home.key()
    with home.lock(), pytest.raises(RecycleGPError, match="another `recyclegp join`"):
        home.lock()
