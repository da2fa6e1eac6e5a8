import { expectEveryBlock } from './every-block.js';

expectEveryBlock('BF16');
