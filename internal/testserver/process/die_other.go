//go:build !linux

package process

import (
	"os"
	"os/exec"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// Resident returns 0: how much memory a process had is not known here.
func Resident(*exec.Cmd) int64 { return 0 }
