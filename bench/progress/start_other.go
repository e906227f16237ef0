//go:build !linux

package main

import "os/exec"

// start starts a test program.
func start(command *exec.Cmd) error { return command.Start() }
