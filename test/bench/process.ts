import { spawn } from 'node:child_process';

/** How a process ended. */
export interface Ended {
  readonly code: number | null;
  /** Wall time, from the call to the end. */
  readonly seconds: number;
  readonly stderr: string;
  /** What the process wrote to file descriptor 3. */
  readonly note: string;
}

/** Runs a command without a shell and waits for its end. Its stdout is thrown away. */
export function runProcess(command: string, args: readonly string[]): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const started = performance.now();
    const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe', 'pipe'] });
    const texts = [child.stdio[2], child.stdio[3]].map((stream) => {
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
    child.on('close', (code) => resolve({ code, seconds, stderr: texts[0]?.value ?? '', note: texts[1]?.value ?? '' }));
  });
}

/** The same for a command that has to succeed. */
export async function runOrThrow(command: string, args: readonly string[]): Promise<Ended> {
  const ended = await runProcess(command, args);
  if (ended.code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${ended.code}\n${ended.stderr}`);
  return ended;
}
