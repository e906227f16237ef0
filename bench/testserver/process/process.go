// Package process runs the private servers of tests: processes that end with the
// one that started them, at the latest.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Process is a child that ends with this process at the latest.
type Process struct {
	command *exec.Cmd
	ended   chan struct{}
}

// Start runs a command in dir with only this environment (nil: this process's
// own), its output in the file name.out there.
func Start(dir, name string, env []string, path string, args ...string) (*Process, error) {
	output, err := os.OpenFile(filepath.Join(dir, name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{command: exec.Command(path, args...), ended: make(chan struct{})}
	p.command.Dir, p.command.Env = dir, env
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go p.run(output, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// run starts and awaits the child on one system thread: the child's death
// signal is bound to the thread that made it, not to the process.
func (p *Process) run(output *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer close(p.ended)
	defer output.Close()
	err := p.command.Start()
	started <- err
	if err == nil {
		_ = p.command.Wait()
	}
}

// Kill ends the child with SIGKILL, which works on a stopped one too, and awaits
// its end. It may be called again.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
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
