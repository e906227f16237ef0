package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts a test program that ends with this process: go test kills only the
// latter. The death's signal is bound to the thread that starts the program, which
// this process therefore keeps.
func start(command *exec.Cmd) error {
	runtime.LockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command.Start()
}
