/** The text of `--help`. */
export const HELP = `Usage: unshard CHECKPOINT OUT [options]   write the weights of a DeepSpeed checkpoint
       unshard CHECKPOINT                 show what is in it
       unshard verify CHECKPOINT WEIGHTS  compare weights, written by anyone, with it; options that choose and name
                                          tensors, or merge an adapter, say how they were written
       unshard plan CHECKPOINT -o PLAN    work out what to write, for several machines
       unshard run PLAN OUT --part I/N    write a part of it: on any machine, in any order, and again after a kill
       unshard finish PLAN OUT            see that all parts are there and right, and write what comes last

CHECKPOINT is the folder that holds global_stepN, or global_stepN itself.
OUT is a folder; it is made when it is missing. WEIGHTS is a .safetensors or .bin file, an index of several, or a folder.

  --dtype fp32|fp16|bf16|keep     precision of floating-point tensors (default fp32)
  --dtype-for PATTERN=DTYPE       precision of tensors whose name matches; * stands for any characters; may be repeated
  --format safetensors|bin        model.safetensors or pytorch_model.bin (default safetensors)
  --max-shard-size SIZE           split the weights: 500MB, 5GB (default: one file)
  --adapter-only                  of a LoRA run, write adapter_model.safetensors as PEFT does, beside adapter_config.json
  --merge-adapter                 of a LoRA run, write the base model with the adapter merged into it
  --adapter-name NAME             the adapter to write or merge, where there are several
  --lora-alpha NUMBER             where adapter_config.json is missing, its lora_alpha, to merge the adapter by
  --lora-r NUMBER                 beside it, the rank that every layer must have (default: what its matrices show)
  --lora-rslora                   beside it, use_rslora: alpha is divided by the root of the rank
  --include PATTERN               write only tensors whose name in the output matches; may be repeated
  --exclude PATTERN               leave out tensors whose name in the output matches; may be repeated
  --exclude-frozen                leave out parameters that were not trained
  --trainable-only                write only parameters that were trained: no buffers either
  --strip-prefix PREFIX           take a prefix such as module. off the names
  --trim-vocab                    leave out the rows of embedding and head beyond vocab_size of config.json
  --duplicate-tied                write a full copy under each tied name
  --overflow error|inf|clamp      what to do with a value that the dtype cannot hold (default error)
  --tp-rule PATTERN=HOW           join the tensor-parallel shards of these names along dimension 0 or 1, as replicated, or
                                  as average; may be repeated (default: as the checkpoint says)
  --tp-rank RANK                  take the shards of one tensor-parallel rank alone
  --also FOLDER                   another folder with shards of the checkpoint, from another disk or node; may be repeated
  --tag TAG                       checkpoint to read (default: the one that the file "latest" names)
  --partial                       where files of ranks are missing or damaged, write what the others hold; what was in them
                                  is taken from the copies in the model file (ZeRO-1 and ZeRO-2), or left out and listed
  --ignore-file PATH              do without this file, as if it were lost: its path or name, * stands for any characters;
                                  for damage that shows in the run only; may be repeated; implies --partial
  --overwrite                     replace files that are there already
  --no-verify                     do not compare recorded CRC-32s, nor masters with their copies; do not read back
  --sha256                        take the SHA-256 of every file that is written, for the report
  --threads N                     threads that read, convert and write; 0 for none (default: one for each core, at most 4)
  --dry-run                       show what would be written, and stop
  -o PLAN                         of plan: the file to write
  --part I/N                      of run: part I of N; without it everything is written by this run
  --recheck                       of run: read the files that are there already back, and write wrong ones again
  --checkpoint FOLDER             of run and finish: where the checkpoint is, if not where it was when it was planned
  --json                          print the inventory, plan or report as JSON
  --quiet                         print no progress
  --version, --help
`;
