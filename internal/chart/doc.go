// Package chart draws charts as SVG: lines with bands, and bars. They have no script and
// take their colours from CSS variables, so that a page can be read offline, in light
// and dark.
package chart
