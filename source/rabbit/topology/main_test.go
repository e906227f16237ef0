package topology

import (
	"testing"

	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }
