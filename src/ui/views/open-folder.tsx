import type { ComponentChildren, JSX } from 'preact';
import { canOpenFolders, chosenFiles, type Picked, pickSource } from '../folders.js';
import type { Source } from '../state.js';

/** The button that opens a checkpoint folder: by picker, or by file input in browsers that cannot open folders in place. */
export function OpenFolder(props: {
  readonly open: (picking: Promise<Picked<Source>>) => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const { open, children } = props;
  if (canOpenFolders()) {
    return (
      <button type="button" class="primary" onClick={() => open(pickSource())}>
        {children}
      </button>
    );
  }
  return (
    <label class="button primary">
      {children}
      <input
        type="file"
        name="folder"
        class="visually-hidden"
        ref={(input) => {
          if (input) input.webkitdirectory = true;
        }}
        onChange={({ currentTarget: { files } }) => files && open(Promise.resolve(chosenFiles(files)))}
      />
    </label>
  );
}
