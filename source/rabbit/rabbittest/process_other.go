//go:build !linux

package rabbittest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
