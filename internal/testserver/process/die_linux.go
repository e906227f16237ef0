package process

import (
	"os/exec"
	"syscall"
)

// attributes have a child die with this process, in a group of its own.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// kill ends a child and what it has started: a Redis server that rewrites its log
// does so in a child, which would go on writing into the test's folder.
func kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Resident returns how many bytes of memory a process that has ended had at most.
func Resident(ended *exec.Cmd) int64 {
	usage, _ := ended.ProcessState.SysUsage().(*syscall.Rusage)
	return usage.Maxrss << 10
}
