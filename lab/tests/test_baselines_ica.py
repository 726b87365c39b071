"""LEAP, iVAE and PCL: losses against slow references, determinism, and they learn a bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from mechtrace.data.panel import Panel
from mechtrace.errors import DataError
from mechtrace.metrics import mean_correlation
from mechtrace.stage1 import encoding as latents
from mechtrace.stage1.encoding import encode
from mechtrace_lab.baselines import Settings, Truth, make
from mechtrace_lab.baselines.ivae import IVAE, DomainVAE
from mechtrace_lab.baselines.leap import BETA, GAMMA, LEAP, NoisePriorVAE, shuffles
from mechtrace_lab.baselines.pcl import Contrast, partners

K, B, T, D, P, L = 3, 4, 7, 3, 5, 2


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def padding() -> Tensor:
    valid = torch.ones(K, B, T, dtype=torch.bool)
    valid[0, 1, 4:] = valid[1, 0, 5:] = valid[2, 3, 3:] = False
    return valid


def a_leap() -> NoisePriorVAE:
    torch.manual_seed(1)
    model = NoisePriorVAE((P,), D, L, K).double()
    with torch.no_grad():
        for p in model.noises.parameters():
            p.normal_(0, 0.7)
    return model


def an_ivae() -> DomainVAE:
    torch.manual_seed(1)
    return DomainVAE((P,), D, L, K).double()


def a_pcl() -> Contrast:
    torch.manual_seed(1)
    return Contrast((P,), D, L).double()


# -- LEAP --------------------------------------------------------------------------------------


def test_leap_prior_is_the_change_of_variables_of_each_component() -> None:
    model = a_leap()
    z = drawn(K, B, T, D)
    eps, slope = model.residuals(z)
    density = model.noise_log_prob(eps)
    gates = model.gate_logits.sigmoid()
    history_weight = model.prior.of_history.unflatten(1, (D, -1))

    def residual(i: int, now: Tensor, past: Tensor) -> Tensor:
        """Component i of one step, layer by layer."""
        a = (past * gates[:, i]) @ history_weight[:, i]
        a = a + now[i] * model.prior.of_own[i, 0] + model.prior.bias[i, 0]
        for layer in model.prior.later:
            a = F.leaky_relu(a, 0.2) @ layer.weight[i] + layer.bias[i, 0]
        return a[0]

    for k, b, t in [(0, 0, L), (1, 2, 4), (2, 3, T - 1)]:
        past = torch.cat([z[k, b, t - 1], z[k, b, t - 2]])

        def to_normal(now: Tensor, k: int = k, past: Tensor = past) -> Tensor:
            """All of z_t to a standard normal vector, by the splines of domain k."""
            raw = torch.stack([residual(i, now, past) for i in range(D)])
            full = torch.zeros(K, D, dtype=torch.float64).index_put((torch.tensor(k),), raw)
            return model.noises(full.reshape(-1, 1))[0].reshape(K, D)[k]

        now = z[k, b, t]
        expected = torch.stack([residual(i, now, past) for i in range(D)])
        torch.testing.assert_close(eps[k, b, t - L], expected)
        jacobian = torch.autograd.functional.jacobian(to_normal, now)
        assert torch.equal(jacobian, jacobian.diag().diag())
        normal = torch.distributions.Normal(0.0, 1.0).log_prob(to_normal(now)).sum()
        found = (density + slope.abs().log())[k, b, t - L].sum()
        torch.testing.assert_close(found, normal + torch.linalg.slogdet(jacobian)[1])


def test_leap_density_of_the_noise_has_mass_one() -> None:
    model = a_leap()
    grid = torch.linspace(-9, 9, 20001, dtype=torch.float64)
    eps = grid[None, None, :, None].expand(K, 1, -1, D)
    mass = model.noise_log_prob(eps).exp().sum(2) * (grid[1] - grid[0])
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=1e-3, atol=1e-3)


def test_leap_posterior_step_by_step() -> None:
    model = a_leap()
    x, noise = drawn(K, B, T, P), drawn(K, B, T, D, seed=1)
    z, mean, log_scale = model.posterior(x, noise, None)
    h = model.features(x[1, 2])
    seen = torch.cat([model.ahead(h[None])[0][0], model.back(h.flip(0)[None])[0][0].flip(0)], -1)
    past = torch.zeros(L * D, dtype=torch.float64)
    for t in range(T):
        m, s = (model.of_past(past) + model.of_series(seen[t])).chunk(2)
        torch.testing.assert_close(mean[1, 2, t], m)
        torch.testing.assert_close(log_scale[1, 2, t], s)
        past = torch.cat([m + s.exp() * noise[1, 2, t], past[:-D]])
        torch.testing.assert_close(z[1, 2, t], past[:D])


def test_leap_padding_is_not_seen() -> None:
    model, valid = a_leap(), padding()
    x, noise = drawn(K, B, T, P), drawn(K, B, T, D, seed=1)
    other = torch.where(valid[..., None], x, 7 + x)
    one, two = model(x, noise, valid), model(other, noise, valid)
    for name in ("squared_error", "divergence"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name))
        assert (getattr(one, name)[~valid] == 0).all()
    torch.testing.assert_close(model.loss(one), model.loss(two))
    short = model(x[:, 1:2, :4], noise[:, 1:2, :4])
    torch.testing.assert_close(one.divergence[0, 1, :4], short.divergence[0, 0])


def test_leap_loss_and_who_moves_whom() -> None:
    model = a_leap()
    x, noise = drawn(K, B, T, P), drawn(K, B, T, D, seed=1)
    terms = model(x, noise)
    error, divergence = terms.squared_error, terms.divergence
    late = error[..., L:].sum() / (K * B * (T - L))
    expected = error[..., :L].sum() / (K * B) + late
    expected = expected + BETA * divergence[..., :L].sum() / (K * B)
    expected = expected + GAMMA * divergence[..., L:].sum() / (K * B * (T - L))
    torch.testing.assert_close(model.score(terms), -expected)
    own = set(model.discriminator.parameters())
    everything = list(model.parameters())
    of_discriminator = torch.autograd.grad(
        terms.discriminator, everything, retain_graph=True, allow_unused=True
    )
    of_rest = torch.autograd.grad(
        model.loss(terms) - terms.discriminator, everything, allow_unused=True
    )
    for p, a, b in zip(everything, of_discriminator, of_rest, strict=True):
        assert (a is not None) == (p in own)
        assert p in own or (b is not None and (b != 0).any())
        assert p not in own or b is None or not b.any()  # the same loss, taken away again
    paces = {pace: sum(p.numel() for p in group) for group, pace in model.groups()}
    assert sum(paces.values()) == sum(p.numel() for p in everything)


def test_leap_total_correlation_against_a_loop() -> None:
    model = a_leap()
    valid = padding()[..., L:]
    eps, noise = drawn(K, B, T - L, D), drawn(K, B, T - L, D, seed=1)
    dependence, own = model._total_correlation(eps, noise, valid)
    rows = eps.flatten(0, 2)
    order = shuffles(noise.flatten(0, 2), valid.flatten())
    joint, loss = [], []
    for n in range(len(rows)):
        if not valid.flatten()[n]:
            continue
        logits = model.discriminator(rows[n])
        mixed = torch.stack([rows[order[n, i], i] for i in range(D)])
        joint.append(logits[0] - logits[1])
        loss.append(-0.5 * logits.log_softmax(-1)[0])
        loss[-1] = loss[-1] - 0.5 * model.discriminator(mixed).log_softmax(-1)[1]
    torch.testing.assert_close(dependence, torch.stack(joint).mean())
    torch.testing.assert_close(own, torch.stack(loss).mean())


def test_shuffles_are_orders_of_the_real_rows() -> None:
    real = torch.arange(50) % 3 > 0
    order = shuffles(drawn(50, D), real)
    for column in order.T:
        assert sorted(column.tolist()) == list(range(50))
        assert real[column].equal(real)
    assert not order[:, 0].equal(order[:, 1])


def test_whole_series_are_encoded_as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = a_leap().float()
    lengths = [30, 1, 7, 30, 2, 55, 7]
    data = [drawn(n, P, seed=n).float().numpy() for n in lengths]
    monkeypatch.setattr(latents, "CHUNK_ROWS", 20)
    found = encode(model, Panel.from_arrays(data))
    with torch.no_grad():
        for block, mean in zip(data, found.arrays(), strict=True):
            alone = model.encode(torch.from_numpy(block)[None])[0][0].numpy()
            np.testing.assert_allclose(mean, alone, rtol=1e-5, atol=1e-6)
    # only what is beyond all patience is cut, and then every row still has latents
    monkeypatch.setattr(latents, "WHOLE_ROWS", 40)
    cut = encode(model, Panel.from_arrays(data))
    assert np.isfinite(cut.mean).all()
    np.testing.assert_allclose(cut.arrays()[0], found.arrays()[0], rtol=1e-5, atol=1e-6)
    assert np.abs(cut.arrays()[5] - found.arrays()[5]).max() > 1e-4


# -- iVAE --------------------------------------------------------------------------------------


def test_ivae_bound_against_torch_distributions() -> None:
    model, valid = an_ivae(), padding()
    x, noise = drawn(K, B, T, P), drawn(K, B, T, D, seed=1)
    normal = torch.distributions.Normal
    expected = torch.zeros(K, B, T, dtype=torch.float64)
    for k in range(K):
        u = F.one_hot(torch.tensor(k), K).double()
        mean, log_scale = model.encoder(torch.cat([x[k], u.expand(B, T, K)], -1)).chunk(2, -1)
        z = mean + log_scale.exp() * noise[k]
        expected[k] = (
            normal(model.decoder(z), 0.1).log_prob(x[k]).sum(-1)
            + normal(0.0, (model.log_variance(u) / 2).exp()).log_prob(z).sum(-1)
            - normal(mean, log_scale.exp()).log_prob(z).sum(-1)
        )
    torch.testing.assert_close(model(x, noise).elbo, expected)
    torch.testing.assert_close(model.score(model(x, noise)), expected.mean())
    torch.testing.assert_close(model.loss(model(x, noise, valid)), -expected[valid].mean())


def labelled(length: int = 20, series: int = 8, names: str = "abc") -> tuple[Panel, np.ndarray]:
    rng = np.random.default_rng(0)
    scale = {name: rng.uniform(0.2, 2.0, 2) for name in "abc"}
    regime = [name for name in names for _ in range(series)]
    z = np.stack([rng.standard_normal((length, 2)) * scale[name] for name in regime])
    x = z @ np.array([[1.0, 0.6, -0.3], [-0.5, 1.0, 0.8]])
    return Panel.from_arrays(x.astype(np.float32), regime=regime), z


@pytest.fixture(scope="module")
def ivae() -> IVAE:
    method = make("ivae", latents=2, lags=1, transitions=5000, device="cpu")
    assert isinstance(method, IVAE)
    return method.fit(labelled()[0])


def test_ivae_encodes_rows_by_their_label(ivae: IVAE) -> None:
    x = np.asarray(labelled(6, 1)[0].values)
    # other names in another order, unequal lengths, rows without a label and an unseen row
    x[4, 1] = np.nan
    panel = Panel.from_arrays(
        [x[:10], x[10:]], regime=[["c"] * 5 + [""] * 5, ["b"] * 3 + ["a"] * 5], missing="gap"
    )
    first, second = ivae.encode(panel) or []
    assert first.shape == (10, 2)
    assert np.isnan(first[4:]).all()
    assert np.isfinite(first[:4]).all()
    model = ivae.model
    with torch.no_grad():
        blocks = torch.from_numpy(x[10:]).expand(3, 1, 8, 3)
        a, b, _ = model.encode(blocks)[0][:, 0].numpy()
    np.testing.assert_allclose(second, np.concatenate([b[:3], a[3:]]), rtol=1e-5, atol=1e-6)


def test_ivae_refuses_what_it_cannot_encode(ivae: IVAE) -> None:
    panel, z = labelled()
    with pytest.raises(DataError, match="regime is known"):
        ivae.encode(panel.without_labels())
    strange = Panel.from_arrays(np.asarray(panel.values)[None, :9], regime=["strange"])
    with pytest.raises(DataError, match="'strange' was not learned"):
        ivae.encode(strange)
    with pytest.raises(DataError, match="regime is known"):
        IVAE(Settings(latents=2)).fit(panel, truth=Truth(panel.without_labels(), list(z)))
    with pytest.raises(DataError, match="labelled recordings"):
        IVAE(Settings(latents=2)).fit(panel.without_labels())


# -- PCL ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True])
def test_pcl_loss_against_a_loop(padded: bool) -> None:
    model = a_pcl()
    valid = padding()[:1] if padded else None
    x, noise = drawn(1, B, T, P), drawn(1, B, T, D, seed=1)
    other = partners(noise[:, :, L:, 0])
    h = model.encoder(x[0])

    def score(now: Tensor, past: list[Tensor]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for i in range(D):
            a = torch.stack([now[i], *[lagged[i] for lagged in past]])
            for number, layer in enumerate(model.scores):
                a = F.leaky_relu(a, 0.2) if number else a
                a = a @ layer.weight[i] + layer.bias[i, 0]  # type: ignore[operator, index]
            total = total + a[0]
        return total

    right, wrong = [], []
    for b in range(B):
        for t in range(L, T):
            c = int(other[0, b, t - L])
            assert c != b
            now = h[b, t]
            one = torch.tensor(1.0, dtype=torch.float64)
            if valid is None or valid[0, b, t]:
                logit = score(now, [h[b, t - 1], h[b, t - 2]])
                right.append(F.binary_cross_entropy_with_logits(logit, one))
                if valid is None or valid[0, c, t]:
                    logit = score(now, [h[c, t - 1], h[c, t - 2]])
                    wrong.append(F.binary_cross_entropy_with_logits(logit, 0 * one))
    expected = (torch.stack(right).mean() + torch.stack(wrong).mean()) / 2
    torch.testing.assert_close(model.loss(model(x, noise, valid)), expected)


def test_partners_are_others_and_everyone_is_one() -> None:
    found = partners(drawn(2, 9, 40))
    assert (found != torch.arange(9)[:, None]).all()
    assert found.sort(dim=1).values.equal(torch.arange(9)[:, None].expand(2, 9, 40))
    counts = F.one_hot(found[:, 0], 9).sum((0, 1))
    assert (counts[1:] > 0).all()  # any of the others


# -- all ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["leap", "ivae", "pcl"])
def test_same_seed_same_latents_and_files_keep_them(name: str, tmp_path) -> None:
    panel, _ = labelled()
    lengths = [20, 13, 4]
    parts = [np.asarray(panel.values)[20 * i : 20 * i + n] for i, n in enumerate(lengths)]
    unequal = Panel.from_arrays(parts, regime=["a", "b", "c"])
    settings = {"latents": 2, "lags": 2, "transitions": 900, "device": "cpu", "evaluations": 2}
    for data in (panel, unequal):
        torch.manual_seed(5)
        first = make(name, **settings).fit(data)
        torch.manual_seed(6)
        second = make(name, **settings).fit(data)
        found = first.encode(unequal) or []
        assert [len(z) for z in found] == lengths
        for one, two in zip(found, second.encode(unequal) or [], strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_array_equal(one, two)
    assert first.weights(unequal) is None
    first.save(tmp_path / "method")  # type: ignore[attr-defined]
    again = type(first).load(tmp_path / "method")  # type: ignore[attr-defined]
    np.testing.assert_array_equal(again.encode(unequal)[0], found[0])


def test_only_pcl_learns_without_labels() -> None:
    panel = labelled()[0].without_labels()
    assert make("pcl", latents=2, transitions=500, device="cpu").fit(panel).encode(panel)
    with pytest.raises(DataError, match="labelled recordings"):
        LEAP(Settings()).fit(panel)


def mixed(z: np.ndarray) -> np.ndarray:
    """Two sources turned by 45 degrees, where the chance to be right is least, and bent."""
    turned = z @ np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    return np.where(turned > 0, turned, 0.5 * turned).astype(np.float32)


def matched(name: str, x: np.ndarray, z: np.ndarray, regime: list[str] | None, **more) -> float:
    panel = Panel.from_arrays(x, regime=regime)
    method = make(name, latents=2, device="cpu", evaluations=5, **more)
    method.fit(panel, truth=Truth(panel, list(z)))
    found = np.concatenate(method.encode(panel) or [])
    own = mean_correlation(z, found)
    oracle = method.oracle_selected().encode(panel) or []
    assert mean_correlation(z, np.concatenate(oracle)) >= own - 0.05
    return own


def test_ivae_learns_sources_of_changing_size() -> None:
    rng = np.random.default_rng(3)
    scale = rng.uniform(0.3, 3.0, (8, 1, 1, 2))
    z = (scale * rng.standard_normal((8, 30, 10, 2))).reshape(-1, 10, 2)
    regime = [f"R{k}" for k in range(8) for _ in range(30)]
    assert mean_correlation(z, mixed(z)) < 0.72
    assert matched("ivae", mixed(z), z, regime, lags=1, window=10, transitions=72_000) > 0.85


def test_pcl_learns_sources_with_a_memory() -> None:
    rng = np.random.default_rng(3)
    z = rng.laplace(size=(300, 30, 2))
    for t in range(1, 30):
        z[:, t] += 0.7 * z[:, t - 1]
    z = z[:, 20:]
    x = np.concatenate([mixed(z), mixed(z[..., ::-1] * [1.0, -0.5])], axis=-1)
    assert matched("pcl", x, z, None, lags=1, window=3, transitions=50_000) > 0.82


def test_leap_learns_latents_with_changing_noise() -> None:
    rng = np.random.default_rng(3)
    scale = rng.uniform(0.2, 2.0, (5, 1, 2))
    z = np.zeros((5, 100, 16, 2))
    for t in range(1, 16):
        moved = 0.6 * np.tanh(z[:, :, t - 1] @ np.array([[1.0, 0.5], [-0.5, 1.0]]))
        z[:, :, t] = moved + scale * rng.standard_normal((5, 100, 2))
    z = z[:, :, 10:].reshape(-1, 6, 2)
    regime = [f"R{k}" for k in range(5) for _ in range(100)]
    assert mean_correlation(z, mixed(z)) < 0.72
    more = {"lags": 1, "window": 6, "transitions": 24_000, "seed": 1}
    assert matched("leap", mixed(z), z, regime, **more) > 0.82
