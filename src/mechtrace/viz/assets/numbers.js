// What `compact.py` packed, unpacked where it is needed.

function bytesOf(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function readIsland(id) {
  const stream = new Blob([bytesOf(byId(id).textContent)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text();
}

// The columns of a table; a missing value is NaN, which charts leave out.
function unpack(packed) {
  const codes = new DataView(bytesOf(packed.codes).buffer);
  return packed.ranges.map(([low, high], column) => {
    const scale = (high - low) / 65534;
    return Array.from({ length: packed.rows }, (_, row) => {
      const code = codes.getUint16(2 * (column * packed.rows + row), true);
      return code === 65535 ? NaN : low + scale * code;
    });
  });
}

function unpackTime(packed) {
  if (packed.stamps) {
    const view = new DataView(bytesOf(packed.stamps).buffer);
    return Array.from({ length: packed.rows }, (_, row) => view.getFloat64(8 * row, true));
  }
  const step = (packed.last - packed.first) / Math.max(packed.rows - 1, 1);
  return Array.from({ length: packed.rows }, (_, row) => packed.first + step * row);
}

// The curves of a recording by name, unpacked once.
const unpacked = new WeakMap();
function curvesOf(series) {
  if (!unpacked.has(series)) {
    const count = content.regimes.length;
    const columns = unpack(series.curves);
    unpacked.set(series, {
      time: unpackTime(series.time),
      alpha: columns.slice(0, count),
      lower: columns.slice(count, 2 * count),
      upper: columns.slice(2 * count, 3 * count),
      residual: columns[3 * count],
    });
  }
  return unpacked.get(series);
}

// Two digits, and whole numbers from ten on, as everywhere in mechtrace.
function rounded(value) {
  if (value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 9.95) return Math.round(value).toLocaleString("en");
  if (size >= 0.0995) return value.toFixed(size >= 0.995 ? 1 : 2);
  return String(Number(value.toPrecision(2)));
}

function timeText(value, dates) {
  if (!dates) return String(Number(value.toPrecision(7)));
  return new Date(value).toISOString().replace("T", " ").replace(/(:00)?\.000Z$|Z$/, "");
}
