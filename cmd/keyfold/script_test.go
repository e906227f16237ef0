package main

import (
	"testing"

	"keyfold/internal/clitest"
)

func TestScripts(t *testing.T) { clitest.Run(t, "keyfold", run) }
