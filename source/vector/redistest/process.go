package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// process is a child that ends with this process at the latest.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

// start runs a command, its output in a file of dir.
func start(dir, path string, args ...string) (*process, error) {
	output, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(path, args...), ended: make(chan struct{})}
	p.command.Dir = dir
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go p.run(output, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// run starts and awaits the child on one system thread: the child's death
// signal is bound to the thread that made it, not to the process.
func (p *process) run(output *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer close(p.ended)
	defer output.Close()
	err := p.command.Start()
	started <- err
	if err == nil {
		_ = p.command.Wait()
	}
}

// kill ends the child with SIGKILL, which works on a frozen one too, and awaits
// its end. It may be called again.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}
