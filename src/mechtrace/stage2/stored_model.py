"""StoredModel: all parts of a fitted model, and the file that stores them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..identifiability.axes import Axes
from ..io.model_file import Archive, read_archive, write_archive
from ..io.typed_json import Mismatch, plain, usable
from ..stage1.fit_record import FitRecord
from ..stage1.fit_run import stored_frontend
from ..stage1.model_card import model_card
from ..stage1.stored_weights import restored_network
from ..stage1.vae import SequentialVAE
from ..vision.keypoint_frontend import KeypointFrontend
from ..vision.observable_subspace import observable_subspace
from .pure_statistics import PureRegimeStatistics
from .stored_arrays import check_arrays


@dataclass(frozen=True, eq=False)
class StoredModel:
    """Network, record, axes, statistics for stage 2 (None if unfinished) and frontend."""

    model: SequentialVAE
    record: FitRecord
    axes: Axes
    statistics: PureRegimeStatistics | None = None
    frontend: KeypointFrontend | None = None

    def __post_init__(self) -> None:
        """Measure what a picture shows of the latents, unless that is known."""
        if self.frontend is not None and self.model.observable_subspace is None:
            channels, seed = self.frontend.keypoint_channels, self.record.settings.fit.seed
            self.model.observable_subspace = observable_subspace(self.model, channels, seed)

    def save(self, path: str | Path) -> None:
        """Write one file: JSON, safetensors, npz and the model card."""
        weights = {"weights": dict(self.model.state_dict())}
        if self.frontend is not None:
            weights["frontend"] = self.frontend.tensors()
        arrays = self.axes.arrays()
        if self.statistics is not None:
            arrays |= self.statistics.arrays()
        if self.model.observable_subspace is not None:
            arrays["observable_subspace"] = self.model.observable_subspace
        card = model_card(self.record)
        write_archive(path, Archive("model", self.record.to_dict(), weights, arrays, card))

    @classmethod
    def load(cls, path: str | Path) -> StoredModel:
        """Read a stored model, or the best weights so far of a checkpoint."""
        archive = read_archive(path)
        meta = {name: value for name, value in archive.meta.items() if name != "counters"}
        record = FitRecord.from_dict(meta, str(path))
        with usable(str(path)):
            if archive.kind not in ("model", "checkpoint"):
                raise Mismatch(f"it holds a {archive.kind[:40]}")
            tensors = dict(archive.tensors)
            if archive.kind == "checkpoint":
                tensors.pop("training", None)
            frontend = stored_frontend(tensors, record)
            model = restored_network(record, tensors.pop("weights", {}))
            for group in tensors:
                raise Mismatch(f"unknown tensors {group[:60]}")
            arrays = check_arrays(record, archive.arrays)
            axes = Axes.unaligned(record.settings.model.latents)
            if record.axes is not None and "axes/matrix" in arrays:
                axes = Axes.restored(plain(record.axes), arrays, record.data.regimes)
            statistics = PureRegimeStatistics.from_arrays(arrays)
        model.observable_subspace = arrays.get("observable_subspace")
        return cls(model, record, axes, statistics, frontend)
