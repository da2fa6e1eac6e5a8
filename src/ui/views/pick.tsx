import type { JSX } from 'preact';
import { type Picked, reopen } from '../folders.js';
import type { Source } from '../state.js';
import { OpenFolder } from './open-folder.js';
import { NoticeBox, StageHeading } from './parts.js';

/** The choice of a checkpoint folder. */
export function Pick(props: {
  readonly notice: string | undefined;
  readonly recent: readonly FileSystemDirectoryHandle[];
  readonly open: (picking: Promise<Picked<Source>>) => void;
  readonly forget: () => void;
}): JSX.Element {
  const { open } = props;
  return (
    <div class="pick">
      <section class="card dropzone">
        <StageHeading>Turn a DeepSpeed checkpoint into model weights</StageHeading>
        <p class="lead">
          Open the folder of a training run. You get <code>model.safetensors</code> or <code>pytorch_model.bin</code> in
          fp32, fp16 or bf16, exact to the bit. Nothing is installed and nothing leaves this machine.
        </p>
        {!isSecureContext && (
          <NoticeBox tone="problem">
            This page was opened over plain http from another machine. There a browser lets it write neither to folders
            nor to storage of its own. Open it over https, or serve it on this machine and open it on localhost.
          </NoticeBox>
        )}
        {props.notice && <NoticeBox tone="problem">{props.notice}</NoticeBox>}
        <div class="actions">
          <OpenFolder open={open}>Choose a folder</OpenFolder>
          <button type="button" onClick={() => open(Promise.resolve(sample()))}>
            Try a sample
          </button>
        </div>
        <p class="hint">or drop a folder anywhere on this page</p>
      </section>
      <div class="columns">
        {props.recent.length > 0 && (
          <section aria-labelledby="recent">
            <div class="title-row">
              <h2 id="recent">Recent folders</h2>
              <button type="button" class="quiet" onClick={props.forget}>
                Clear list
              </button>
            </div>
            <ul class="recent">
              {props.recent.map((handle, i) => (
                // Two folders may have the same name.
                <li key={`${i} ${handle.name}`}>
                  <button type="button" onClick={() => open(reopen(handle))}>
                    {handle.name}
                  </button>
                </li>
              ))}
            </ul>
          </section>
        )}
        <section aria-labelledby="which">
          <h2 id="which">Which folder?</h2>
          <p>
            The one that holds the file <code>latest</code>, or a <code>global_step</code> folder itself. ZeRO stages 0
            to 3 are read.
          </p>
        </section>
        <pre class="example">{EXAMPLE}</pre>
      </div>
    </div>
  );
}

const EXAMPLE = `my-run/
├─ config.json
├─ latest
└─ global_step1000/
   ├─ …_model_states.pt
   └─ …_optim_states.pt`;

/** The small checkpoint that is served beside the page. */
function sample(): Source {
  return { name: 'sample', ref: { kind: 'sample', url: new URL('./sample/', document.baseURI).href } };
}
