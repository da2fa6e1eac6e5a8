/** The parts of the File System Access API that lie outside the common standard, as Chromium has them. */

type FileSystemPermissionMode = 'read' | 'readwrite';

interface FileSystemHandle {
  queryPermission(descriptor: { mode: FileSystemPermissionMode }): Promise<PermissionState>;
  requestPermission(descriptor: { mode: FileSystemPermissionMode }): Promise<PermissionState>;
}

interface DataTransferItem {
  getAsFileSystemHandle?(): Promise<FileSystemHandle | null>;
}

interface DirectoryPickerOptions {
  id?: string;
  mode?: FileSystemPermissionMode;
  startIn?: FileSystemHandle;
}

declare function showDirectoryPicker(options?: DirectoryPickerOptions): Promise<FileSystemDirectoryHandle>;
