// The whole state of the page in the fragment of its address: JSON, deflated, in base64url. The server never sees it.

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** Turns a state into a fragment. */
export async function pack(state) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Turns a fragment into a state; null if it is none. */
export async function unpack(fragment) {
  try {
    const text = atob(fragment.replace(/^#/, "").replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
    return typeof state === "object" ? state : null;
  } catch {
    return null;
  }
}
