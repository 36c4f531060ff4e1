// Asks the server. The path of the page has the token, so addresses below it are enough.

/** Sends a question; throws an Error with the server's words, or an AbortError if `signal` stopped it. */
export async function ask(question, body, signal) {
  const response = await fetch(`api/${question}`, {
    method: body === undefined ? "GET" : "POST",
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text.trim() || `the server answered ${response.status}` };
  }
  if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`);
  return answer;
}

/** A question of which only the newest matters: asking again stops the one before. */
export class Newest {
  #controller = null;

  start() {
    this.stop();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }

  stop() {
    this.#controller?.abort();
    this.#controller = null;
  }
}

/** Whether an error only says that a question was stopped. */
export const isStopped = (error) => error.name === "AbortError";
