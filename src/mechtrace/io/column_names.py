"""What the name of a column says about its role, in English, German and Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Usual names of these columns, in order of preference.
USUAL_NAMES = {
    "time": (
        "time", "t", "timestamp", "datetime", "date", "seconds", "elapsed", "frame", "ts", "sec",
        "zeit", "zeitstempel", "datum", "时间", "时间戳", "日期时间", "采样时间", "日期",
    ),
    "series": (
        "series", "run", "trial", "recording", "sequence", "subject", "id", "unit",
        "lauf", "versuch", "messung", "aufnahme", "编号", "试验", "实验",
    ),
    "regime": (
        "regime", "mode", "label", "state", "condition", "phase", "class", "activity", "stage",
        "modus", "zustand", "betriebsart", "klasse", "工况", "模式", "状态", "标签", "anomaly",
        "fault", "status", "health",
    ),
}  # fmt: skip
ROLES = tuple(USUAL_NAMES)
#: Columns with these names that increase throughout are not measurements.
CLOCKS = {*USUAL_NAMES["time"], *USUAL_NAMES["series"], "index", "sample", "step", "unnamed"}
#: Last words of names that count or name things; German and Chinese compounds end in them.
ID_WORDS = _set(
    "id ids nr no num number nummer run runs trial session file filename recording experiment exp"
    " test sequence series episode batch cycle job key index sample meas measurement"
    " lauf versuch messung messreihe"
    " aufnahme datei zyklus runid testid fileid trialid batchid expid"
)
ID_ENDINGS = ("nummer", "nr", "编号", "序号", "批号", "批次", "试验", "实验", "文件")
#: Words for what is held out together.
GROUP_WORDS = _set(
    "machine subject person patient participant device animal vehicle rig plant group asset"
    " station specimen athlete driver operator maschine proband anlage gerät geraet gruppe"
    " fahrzeug prüfling subjectid machineid deviceid patientid unitid"
    " 机器 设备 机组 车辆 受试者 患者"
)
#: Things that are sensors as often as they are names of machines.
MAYBE_GROUP_WORDS = _set("pump motor engine turbine bearing unit site pumpe lager")
REGIME_WORDS = _set(
    "regime mode label state condition phase class activity stage status modus zustand klasse"
    " fault anomaly gait"
)
REGIME_ENDINGS = ("zustand", "modus", "klasse", "状态", "模式", "工况", "标签", "类别", "类型")
TIME_WORDS = _set("time timestamp datetime date zeit zeitstempel datum")
DAYS = ("date", "day", "datum", "tag", "日期")
CLOCKS_OF_DAY = ("time", "clock", "uhrzeit", "zeit", "时间", "时刻")
#: Marks of rows that stand beside a regime and are derived from it.
MARK_WORDS = _set("changepoint change outlier anomaly fault flag label marker event target alarm")


def without_unit(name: str) -> str:
    """Lower the name of a column and drop its unit, as in Time (s), t_ms or time [min]."""
    return re.sub(r"\s*[\[(（].*[\])）]$|_(s|sec|ms|us|ns|min|h)$", "", name.lower()).strip()


def words(name: str) -> list[str]:
    """Split the name of a column into words in lower case, without digits.

    >>> words("RunID"), words("Versuchs-Nr."), words("pump_2_id")
    (['run', 'id'], ['versuchs', 'nr'], ['pump', 'id'])
    """
    apart = re.sub(r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])", " ", re.sub(r"[\[(（].*$", "", name))
    return [word for word in re.split(r"[\W\d_]+", apart.lower()) if word]


def names_things(name: str) -> bool:
    """Tell whether a column is named like the numbers or names of recordings or machines.

    >>> [name for name in ("run_id", "Versuchsnummer", "fluid", "machine") if names_things(name)]
    ['run_id', 'Versuchsnummer', 'machine']
    """
    last = words(name)[-1:]
    return bool(last) and (last[0] in ID_WORDS | GROUP_WORDS or last[0].endswith(ID_ENDINGS))


def names_group(name: str, *, perhaps: bool = False) -> bool:
    """Tell whether a column is named like machines or people; `perhaps` like parts of machines."""
    known = GROUP_WORDS | MAYBE_GROUP_WORDS if perhaps else GROUP_WORDS
    found = words(name)
    if found and found[-1] in ("id", "nr", "no", "number", "name", "num"):
        found = found[:-1]
    if not found:
        return False
    chinese = [word for word in known if not word.isascii() and word in found[-1]]
    return found[-1] in known or (found[-1].endswith("号") and bool(chinese))


def names_regime(name: str) -> bool:
    """Tell whether a column is named like labels of a regime."""
    last = words(name)[-1:]
    return bool(last) and (last[0] in REGIME_WORDS or last[0].endswith(REGIME_ENDINGS))


def names_time(name: str) -> bool:
    """Tell whether a column is named like a time."""
    return without_unit(name) in USUAL_NAMES["time"] or bool(TIME_WORDS & {*words(name)[-1:]})


def names_clock(name: str) -> bool:
    """Tell whether a column is named like something that counts rows, things or time."""
    found = words(name)[:1] + words(name)[-1:]
    return without_unit(name) in CLOCKS or bool(CLOCKS & {*found}) or names_things(name)


def usual(names: Sequence[str], role: str, taken: set[str]) -> list[str]:
    """Columns with a usual name of this role, preferred names first."""
    lower = {without_unit(name): name for name in reversed(names) if name not in taken}
    return [lower[name] for name in USUAL_NAMES[role] if name in lower]


def detect_roles(names: Sequence[str], given: dict[str, str | None]) -> dict[str, str | None]:
    """Fill the roles that were not given, by the usual names of columns.

    >>> detect_roles(["T", "run", "x1"], {"time": None, "series": None, "regime": None})
    {'time': 'T', 'series': 'run', 'regime': None}
    """
    taken = {name for name in given.values() if name is not None}
    return {role: given.get(role) or next(iter(usual(names, role, taken)), None) for role in ROLES}


def split_names(name: str | None) -> list[str]:
    """Split the names of columns that stand for one role together, as in subject,trial."""
    return [part.strip() for part in name.split(",")] if name else []
