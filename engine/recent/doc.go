// Package recent tells what the newest minutes of a long count were like: [Share] which share of
// events had a property, [Most] which key had most of them. Both cost a few numbers, however many
// events come.
package recent
