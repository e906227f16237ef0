package consume_test

import (
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
)

func init() {
	consume.DeadLetterQueue = func(p *rabbit.Publisher, names rabbit.Names, host string) consume.DeadLetters {
		return deadletter.Queue{Publisher: p, Names: names, Host: host}
	}
}
