import { render } from 'preact';
import { openEngine, spawnEngineWorker } from '../worker/client.js';
import { App } from './app.js';
import './style.css';

const root = document.getElementById('app');
if (root) render(<App engine={openEngine(spawnEngineWorker)} />, root);
