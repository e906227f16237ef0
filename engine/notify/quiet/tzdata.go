package quiet

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// sources are the folders in which package time looks for zones on Unix, in its
// order.
var sources = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// Tzdata returns the version of the zone data: "2026a" where the system has it, the
// version of Go ("go1.26.1") where the data is Go's own, "" where it is unknown.
func Tzdata() string { return version() }

var version = sync.OnceValue(func() string {
	if own := os.Getenv("ZONEINFO"); own != "" {
		return tzdata(append([]string{own}, sources...))
	}
	return tzdata(sources)
})

// tzdata returns the version of the data that a zone is read from.
func tzdata(folders []string) string {
	const sample = "Europe/Berlin"
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, sample)); err == nil {
			return versionIn(folder)
		}
	}
	if _, err := LoadZone(sample); err != nil {
		return ""
	}
	return runtime.Version()
}

// versionIn returns the version that a folder of zones names, "" for none.
func versionIn(folder string) string {
	if text, err := os.ReadFile(filepath.Join(folder, "+VERSION")); err == nil {
		return strings.TrimSpace(string(text))
	}
	text, _ := os.ReadFile(filepath.Join(folder, "tzdata.zi"))
	line, _, _ := strings.Cut(string(text), "\n")
	version, ok := strings.CutPrefix(line, "# version ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(version)
}
