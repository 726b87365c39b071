"""Tiny files of motions and boxes, in the formats of the public data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FRAME = 1 / 120
#: Length of thigh and shank in the unit of the files, which is 1 / 0.45 inch.
LIMB = 7.0


def bvh(
    path: Path,
    speed: float,
    seconds: float = 1.0,
    *,
    swing: float = 25.0,
    pose: bool = True,
    last: tuple[float, float] | None = None,
    prefix: str = "",
) -> None:
    """A body that glides along z at `speed` m/s while its legs swing; a T-pose comes first.

    With `last`, speed and swing go there, evenly over the middle half of the trial.
    """
    lines = ["HIERARCHY", f"ROOT {prefix}Hips", "{", "OFFSET 0 0 0"]
    lines += ["CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation"]
    for side, left in (("Left", 1.5), ("Right", -1.5)):
        lines += _joint(f"{prefix}{side}UpLeg", (left, -1, 0)) + _joint(
            f"{prefix}{side}Leg", (0, -LIMB, 0)
        )
        lines += _joint(f"{prefix}{side}Foot", (0, -LIMB, 0)) + _joint(
            f"{prefix}{side}ToeBase", (0, -0.5, 2)
        )
        lines += ["End Site", "{", "OFFSET 0 0 1", "}", "}", "}", "}", "}"]
    lines += ["}", "MOTION"]
    count = round(seconds / FRAME)
    share = np.clip(2 * np.arange(count) / count - 0.5, 0, 1)
    to, wide = (speed, swing) if last is None else last
    pace, swings = speed + share * (to - speed), swing + share * (wide - swing)
    gone = (np.cumsum(pace) - pace) * FRAME  # metres
    ahead = gone / (0.0254 / 0.45)
    phase = 2 * np.pi * (0.8 * np.arange(count) * FRAME + 0.2 * gone)
    zeros = np.zeros(count)
    hips = [zeros, zeros + 16, ahead, zeros, zeros, zeros]
    legs = []
    for sign in (1, -1):
        thigh = sign * swings * np.sin(phase)
        legs += [zeros, zeros, -thigh, zeros, zeros, np.abs(thigh), *[zeros] * 6]
    rows = np.column_stack([*hips, *legs])
    if pose:
        rows = np.vstack([np.where(np.arange(30) < 3, rows[0], 0.0), rows])
        rows[0, 6:9] = (-170, 40, 170)  # no leg gets there within one frame
    lines += [f"Frames: {len(rows)}", f"Frame Time: {FRAME:.7f}"]
    lines += [" ".join(f"{value:.4f}" for value in row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def people(folder: Path, *, seconds: float = 2.0, new: str = "new") -> None:
    """Three people who walk and run, and two others who change from one to the other."""
    for subject in (1, 2, 3):
        for trial in (1, 2):
            more = 0.1 * trial + 0.03 * subject
            bvh(folder / "walk" / f"0{subject}_0{trial}.bvh", 1.1 + more, seconds)
            bvh(folder / "run" / f"0{subject}_1{trial}.bvh", 3.0 + more, seconds, swing=45.0)
    bvh(folder / new / "04_01.bvh", 1.3, 2 * seconds, last=(3.2, 45.0))
    bvh(folder / new / "05_01.bvh", 3.2, 2 * seconds, swing=45.0, last=(1.3, 25.0))


def _joint(name: str, offset: tuple[float, ...]) -> list[str]:
    places = " ".join(map(str, offset))
    return [f"JOINT {name}", "{", f"OFFSET {places}", "CHANNELS 3 Zrotation Yrotation Xrotation"]


ASF = """:version 1.10
:name test
:units
  mass 1.0
  length 0.45
  angle deg
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name lfemur
     direction 0 -1 0
     length 7
     axis 0 0 90 XYZ
     dof rx ry rz
  end
  begin
     id 2
     name ltibia
     direction 0 -1 0
     length 6
     axis 0 0 0 XYZ
     dof rx
  end
:hierarchy
  begin
    root lfemur
    lfemur ltibia
  end
"""


def acclaim(folder: Path, frames: list[str]) -> Path:
    """A leg of two bones; the axes of the thigh are turned by a right angle."""
    (folder / "01.asf").write_text(ASF, encoding="utf-8")
    text = ":FULLY-SPECIFIED\n:DEGREES\n" + "\n".join(frames) + "\n"
    (folder / "01_01.amc").write_text(text, encoding="utf-8")
    return folder / "01_01.amc"


def boxes(path: Path, tracks: dict[int, np.ndarray], *, first: int = 1) -> None:
    """A MOT file of centres (n, 2) of each target, NaN where it is not seen."""
    lines = []
    for target, centres in tracks.items():
        for frame, (x, y) in enumerate(centres, start=first):
            if np.isfinite(x):
                box = f"{round(x) - 20},{round(y) - 10},40,20"
                lines.append(f"{frame},{target},{box},1,1,1")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
