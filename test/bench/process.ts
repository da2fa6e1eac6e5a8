import { spawn } from 'node:child_process';

/** How a process ended. */
export interface Ended {
  readonly code: number | null;
  /** Wall time, from the call to the end. */
  readonly seconds: number;
  readonly stdout: string;
  readonly stderr: string;
  /** What the process wrote to file descriptor 3. */
  readonly note: string;
}

/** Runs a command without a shell and waits for its end. */
export function runProcess(command: string, args: readonly string[]): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const started = performance.now();
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
    const texts = [child.stdio[1], child.stdio[2], child.stdio[3]].map((stream) => {
      const text = { value: '' };
      stream?.on('data', (chunk) => {
        text.value += chunk;
      });
      return text;
    });
    let seconds = 0;
    child.on('exit', () => {
      seconds = (performance.now() - started) / 1000;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      const [out = '', err = '', note = ''] = texts.map(({ value }) => value);
      resolve({ code, seconds, stdout: out, stderr: err, note });
    });
  });
}

/** The same for a command that has to succeed. */
export async function runOrThrow(command: string, args: readonly string[]): Promise<Ended> {
  const ended = await runProcess(command, args);
  if (ended.code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${ended.code}\n${ended.stderr}`);
  return ended;
}
