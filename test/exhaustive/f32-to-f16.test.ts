import { expectEveryBlock } from './every-block.js';

expectEveryBlock('F16');
