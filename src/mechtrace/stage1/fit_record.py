"""The model card: what a person should know about a stored model, in Markdown."""

from __future__ import annotations

from typing import Any

from .progress import duration


def model_card(facts: dict[str, Any]) -> str:
    """A page about the facts of a fit."""
    settings, training = facts["settings"], facts["training"]
    elbo = training["held_out_elbo"]
    shape = facts["pictures"]["size"] if "pictures" in facts else facts["shape"]
    lines = [
        "# A mechtrace model",
        "",
        f"Learned from `{facts['source']}`: {len(facts['regimes'])} regimes,"
        f" {_shape(shape)}, {facts['training_rows']:,} training rows.",
        "",
        "| regime | training series | held-out series | gain over no history (nats/step) |",
        "|---|---|---|---|",
    ]
    gain = facts.get("health", {}).get("gain_over_no_history", {})
    for name in facts["regimes"]:
        known = f"{gain[name]:.2f}" if name in gain else "not measured"
        train, held = facts["training_series"][name], facts["held_out_series"][name]
        lines.append(f"| {name.replace('|', chr(92) + '|')} | {train} | {held} | {known} |")
    lines += [
        "",
        f"- {settings['latents']} latents, {settings['lags']} lags, {settings['experts']} experts,"
        f" {training['parameters']:,} parameters, objective {settings['objective']}",
        f"- best of {training['steps']} steps at step {training['best_step']}"
        f" ({duration(training['seconds'])} on {training['device']}), held-out ELBO "
        + ("not measured" if elbo is None else f"{elbo:.3f} nats per step"),
        f"- seed {settings['seed']}, data fingerprint {facts['fingerprint'][:16]}",
        "- versions: " + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()),
    ]
    weak = [name for name, nats in gain.items() if nats <= 0]
    if weak:
        lines.append(f"- no better than ignoring the past on held-out series: {', '.join(weak)}")
    if "pictures" in facts:
        told = 1 - facts["pictures"]["unexplained"]
        lines.append(f"- key points tell {told:.1%} of what varies in held-out pictures")
    unused = facts.get("health", {}).get("unused_latents", 0)
    if unused:
        lines.append(f"- {unused} latents carry nothing: fewer latents may do")
    evidence = facts.get("evidence")
    if evidence:
        lines.append(f"- alpha(t) is recovered from {' + '.join(evidence['blocks'])}")
    lines += ["", *_about_axes(facts.get("axes"))]
    return "\n".join(lines)


def _shape(shape: list[int]) -> str:
    return f"{shape[0]} channels" if len(shape) == 1 else f"frames of {shape[0]} x {shape[1]}"


def _about_axes(axes: dict[str, Any] | None) -> list[str]:
    """Which latents may be interpreted, and why."""
    if axes is None:
        return [
            "Axes are not aligned: the latents are known up to a smooth invertible map, often a"
            " rotation. Do not interpret single axes.",
            "",
        ]
    lines = [axes["verdict"], ""]
    if axes["evidence"]:
        lines += ["| evidence | axes it identifies alone | cost of a turn (nats/step) | p |"]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| {e['kind']} | {e['identified']} | {e['cost']:.4f} | {e['p_value']:.1g} |"
            for e in axes["evidence"]
        ]
        lines += [
            "",
            f"The noise's frame bends by {axes['bending']:.0%} over the states (0 % is flat);"
            f" W^(k) are {axes['weights_from']}.",
            "",
        ]
    return lines
