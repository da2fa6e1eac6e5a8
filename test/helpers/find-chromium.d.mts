export declare function chromiumPath(): string | undefined;
export declare function isChromium(path: string): boolean;
