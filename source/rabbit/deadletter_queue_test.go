package rabbit_test

import (
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

func init() {
	rabbit.DeadLetterQueue = func(p *rabbit.Publisher, names rabbit.Names, host string) rabbit.DeadLetters {
		return deadletter.Queue{Publisher: p, Names: names, Host: host}
	}
}
