//go:build !linux

package process

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
