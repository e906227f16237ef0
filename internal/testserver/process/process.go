// Package process runs the private servers of tests: it finds the installed
// program, claims ports, starts the process, waits until it answers, keeps its
// output, kills it and starts it again. A process ends with the one that started
// it, at the latest.
//
// [Shared] is the one server of a test binary. [Main] stops it and looks for
// leaked goroutines.
package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Process is a child that ends with this process at the latest.
type Process struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error // of its end; set before ended is closed
}

// Run starts a command.
func Run(command *exec.Cmd) (*Process, error) {
	p := &Process{command: command, ended: make(chan struct{})}
	command.SysProcAttr = attributes()
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Start runs a program in dir with only this environment (nil: this process's
// own). Its output is appended to the file name.out there. It makes the folder.
func Start(dir, name string, env []string, path string, args ...string) (*Process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	output, err := os.OpenFile(filepath.Join(dir, name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command := exec.Command(path, args...)
	command.Dir, command.Env = dir, env
	command.Stdout, command.Stderr = output, output
	return Run(command)
}

// run starts and awaits the child on one system thread: the child's death
// signal is bound to the thread that made it, not to the process.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer close(p.ended)
	err := p.command.Start()
	started <- err
	if err == nil {
		p.err = p.command.Wait()
	}
}

// Kill ends the child and its own children with SIGKILL, which works on stopped
// ones too, and awaits the child's end. It may be called again.
func (p *Process) Kill() {
	if p.Running() {
		kill(p.PID())
	}
	<-p.ended
}

// Running reports whether the child has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Signal sends the child a signal.
func (p *Process) Signal(s os.Signal) error { return p.command.Process.Signal(s) }

// Ended is closed when the child has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err returns how the child has ended, as [exec.Cmd.Wait] does. It is called
// after that.
func (p *Process) Err() error { return p.err }
