"""StoredModel: all parts of a fitted model, and the file that stores them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import StoreError
from ..identifiability.axes import Axes
from ..io.model_file import Archive, read_archive, write_archive
from ..stage1.experts import AlignedExperts
from ..stage1.fit_record import FitRecord, model_card, plain
from ..stage1.fit_run import stored_frontend
from ..stage1.vae import SequentialVAE
from ..vision.keypoint_frontend import KeypointFrontend
from ..vision.observable_subspace import observable_subspace
from .pure_statistics import PureRegimeStatistics


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
        archive.meta.pop("counters", None)  # of a checkpoint
        record, arrays = FitRecord.from_dict(archive.meta, str(path)), archive.arrays
        config, regimes = record.settings.model, record.data.regimes
        axes = Axes.unaligned(config.latents)
        try:
            model = SequentialVAE(config, len(regimes), record.data.shape)
            if record.refit is not None and record.refit.gain > 0:
                model.experts = AlignedExperts(model.new_experts())
            model.load_state_dict(archive.tensors["weights"])
            if record.axes is not None and "axes/matrix" in arrays:
                axes = Axes.restored(plain(record.axes), arrays, regimes)
            frontend = stored_frontend(archive, record)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise StoreError(
                f"does not hold a usable model ({str(error).splitlines()[0]})",
                where=str(path),
                fix="save the model again",
            ) from error
        model.observable_subspace = arrays.get("observable_subspace")
        return cls(model, record, axes, PureRegimeStatistics.from_arrays(arrays), frontend)
