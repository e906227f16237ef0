package metric

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Parse reads a page of series: their values by name and labels, as the page has them.
func Parse(text io.Reader) (map[string]float64, error) {
	figures := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		if end := strings.LastIndexByte(line, ' '); end > 0 && line[0] != '#' {
			if value, err := strconv.ParseFloat(line[end+1:], 64); err == nil {
				figures[line[:end]] = value
			}
		}
	}
	return figures, lines.Err()
}
