package process

import "syscall"

// attributes have a child die with this process, in a group of its own.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// kill ends a child and what it has started: a Redis server that rewrites its log
// does so in a child, which would go on writing into the test's folder.
func kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
