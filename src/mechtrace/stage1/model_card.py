"""The model card: what a person should know about a fit, as Markdown."""

from __future__ import annotations

from .._runtime.progress import duration
from .fit_record import AxesRecord, FitRecord, GroupsRecord, SizesRecord


def model_card(record: FitRecord) -> str:
    """Describe a fit: its data, quality, settings and axes."""
    data, training, shape = record.data, record.training, record.row_shape
    rows = f"{shape[0]} channels" if len(shape) == 1 else f"frames of {shape[0]} x {shape[1]}"
    gain = {} if record.validation is None else record.validation.gain_over_no_history
    lines = [
        "# A mechtrace model",
        "",
        f"Learned from `{data.source}`: {len(data.regimes)} regimes, {rows},"
        f" {data.training_rows:,} training rows.",
        "",
        "| regime | training series | held-out series | gain over no history (nats/step) |",
        "|---|---|---|---|",
    ]
    for name in data.regimes:
        known = f"{gain[name]:.2f}" if name in gain else "not measured"
        train, held = data.training_series[name], data.held_out_series[name]
        lines.append(f"| {name.replace('|', chr(92) + '|')} | {train} | {held} | {known} |")
    model, elbo = record.settings.model, training.held_out_elbo
    lines += [
        "",
        f"- {model.latents} latents, {model.lags} lags, {model.experts} experts,"
        f" {training.parameters:,} parameters, objective {model.objective}",
        *_about_sizes(record.sizes),
        f"- best of {training.steps} steps at step {training.best_step}"
        f" ({duration(training.seconds)} on {training.device}), held-out ELBO "
        + ("not measured" if elbo is None else f"{elbo:.3f} nats per step"),
        f"- seed {record.settings.fit.seed}, data fingerprint {data.fingerprint[:16]}",
        "- versions: " + ", ".join(f"{k} {v}" for k, v in record.versions.items()),
    ]
    if record.origin is not None:
        command = record.origin.command
        by = "" if command is None else f" by `{command}`"
        lines.append(f"- fitted on {record.origin.finished} UTC{by}")
    weak = [name for name, nats in gain.items() if nats <= 0]
    if weak:
        lines.append(
            "- on held-out series no better than ignoring the past: the experts of"
            f" {', '.join(weak)}"
        )
    if record.pictures is not None:
        share = 1 - record.pictures.unexplained
        lines.append(f"- key points explain {share:.1%} of the variance of held-out pictures")
    unused = 0 if record.validation is None else record.validation.unused_latents
    if unused:
        lines.append(
            f"- These sensors do not determine {unused} of the {model.latents} latents;"
            + (" more steps may help." if unused == model.latents else
               f" refit with {model.latents - unused}.")
        )  # fmt: skip
    if record.evidence is not None:
        lines.append(f"- alpha(t) is recovered from {' + '.join(record.evidence.selected)}")
    if record.groups is not None:
        lines.append(_about_groups(record.groups))
    return "\n".join([*lines, "", *_about_axes(record.axes)])


def _about_sizes(sizes: SizesRecord | None) -> list[str]:
    """What the data chose, from what, and what else was close."""
    if sizes is None:
        return []
    lines = []
    for name, one, what in (
        ("latents", sizes.latents, "share of noise in the strongest direction that is left out"),
        ("lags", sizes.lags, "nats per channel and step lost on held-out series"),
    ):
        if one is not None:
            tried = ", ".join(f"{size}: {value:.3g}" for size, value in one.measured.items())
            close = " and ".join(map(str, one.close))
            lines.append(
                f"- {name} chosen by the data: {one.chosen}"
                + (f", {close} would do about as well" if close else "")
                + f" ({what}: {tried}; limit {one.limit:.3g})"
            )
    if sizes.pruned:
        lines.append(
            f"- {sizes.pruned} more latents carried nothing and were taken out after training"
        )
    return lines


def _about_groups(groups: GroupsRecord) -> str:
    """Where it was measured what is normal."""
    if groups.count < 2:
        return (
            "- All recordings are of one group, so nothing is known of others (machines, people,"
            " days): intervals and alarms hold for this group alone."
        )
    offsets = (
        "A constant offset of each recording is estimated and removed, which lowers the error in"
        " groups left out."
        if groups.offsets
        else "No offset of a recording is removed: it does not clearly help in groups left out."
    )
    return f"- What is normal was measured in {groups.count} groups. {offsets}"


def _about_axes(axes: AxesRecord | None) -> list[str]:
    """Which latents are interpretable, and why."""
    if axes is None:
        return [
            "Axes are not aligned: the latents are identified up to a smooth invertible map, often"
            " a rotation. Do not interpret single axes.",
            "",
        ]
    lines = [axes.verdict, ""]
    if axes.evidence:
        lines += [
            "| evidence | axes it identifies alone"
            " | likelihood lost by rotating the axes (nats per step) | p |",
            "|---|---|---|---|",
            *(
                f"| {e.kind} | {e.identified} | {e.rotation_loss:.4f} | {e.p_value:.1g} |"
                for e in axes.evidence
            ),
            "",
            f"Curvature of the latent space: {axes.curvature:.0%} (0 % is flat). W^(k):"
            f" {axes.weights_from}.",
            "",
        ]
    return lines
