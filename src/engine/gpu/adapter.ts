/** What an adapter is, for people and for the choice between GPU and CPU. */
export interface AdapterName {
  /** Name of the hardware; a software adapter is marked. */
  readonly description: string;
  /** True where the adapter is the CPU posing as a GPU. */
  readonly software: boolean;
}

/** Parts of the names of software renderers, for browsers that do not yet say `isFallbackAdapter`. */
const SOFTWARE_RENDERERS = /swiftshader|llvmpipe|lavapipe|basic render/i;

/** Names an adapter by the little that browsers tell of it: any field may be empty. */
export function nameAdapter(
  info: Pick<GPUAdapterInfo, 'vendor' | 'architecture' | 'device' | 'description'> & { isFallbackAdapter?: boolean },
): AdapterName {
  const parts = [info.vendor, info.architecture, info.device].filter((part) => part !== '');
  const name = info.description || parts.join(' ') || 'unnamed adapter';
  const software = info.isFallbackAdapter === true || SOFTWARE_RENDERERS.test([name, ...parts].join(' '));
  return { description: software ? `${name} (software)` : name, software };
}
