//go:build !linux

package sqltest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
