package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a process that ends with this one at the latest.
type child struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error // of its end; set before ended is closed
}

// spawn starts a command.
func spawn(command *exec.Cmd) (*child, error) {
	c := &child{command: command, ended: make(chan struct{})}
	command.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// run starts and awaits the child on one system thread: the death signal is
// bound to the thread that made the child, not to the process.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer close(c.ended)
	err := c.command.Start()
	started <- err
	if err == nil {
		c.err = c.command.Wait()
	}
}

func (c *child) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// signal does nothing to a process that has ended.
func (c *child) signal(s os.Signal) { _ = c.command.Process.Signal(s) }

// kill is kill -9. It returns when the process has ended, also one that is
// stopped.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.ended
}

// end tells how a process has ended: by its exit code, or by the signal.
func (c *child) end() (code int, by syscall.Signal) {
	if c.err == nil {
		return 0, 0
	}
	exit, ok := errors.AsType[*exec.ExitError](c.err)
	if !ok {
		return -1, 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		by = status.Signal()
	}
	return exit.ExitCode(), by
}

// killed reports whether SIGKILL ended the process, whoever sent it.
func (c *child) killed() bool {
	_, by := c.end()
	return by == syscall.SIGKILL
}
