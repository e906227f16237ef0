package worker

import (
	"keyfold/engine/breaker"
	"keyfold/service/daemon"
)

// faultPause is how long the worker does not consume after a configuration fault.
const faultPause = daemon.FaultPause

// faultFound pauses the consumer: see [consuming.Control.FaultFound].
func (w *Worker) faultFound(err error) { w.control.FaultFound(err) }

// storeChanged follows the store's breaker: see [consuming.Control.StoreChanged].
func (w *Worker) storeChanged(s breaker.State) { w.control.StoreChanged(s) }
