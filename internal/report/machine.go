package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is where a measurement was made. What /proc does not say is zero.
type Machine struct {
	Cores     int     `json:"cores"`
	CPU       string  `json:"cpu"`
	MemoryMiB int     `json:"memory_mib"`
	Load      float64 `json:"load_average"` // of the minute before the start
}

// busyLoad is the load average for each core above which other programs take so much of the
// machine that figures say little.
const busyLoad = 2

func (m Machine) busy() bool { return m.Load > busyLoad*float64(m.Cores) }

func (m Machine) String() string {
	cpu := m.CPU
	if cpu == "" {
		cpu = "CPU not known"
	}
	return fmt.Sprintf("%d cores, %s, %.1f GiB of memory, load average %.2f at the start", m.Cores, cpu, float64(m.MemoryMiB)/1024, m.Load)
}

func thisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), CPU: field("/proc/cpuinfo", "model name")}
	kib, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " ")
	n, _ := strconv.Atoi(kib) // 0 where it is not known
	m.MemoryMiB = n / 1024
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	m.Load, _ = strconv.ParseFloat(load, 64)
	return m
}

// field returns the first field of a name in a file of /proc; "" where there is none.
func field(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
