package rabbittest

import (
	"fmt"
	"strings"
)

// Queue is the state of a queue.
type Queue struct {
	Ready     int
	Messages  int // ready or with a consumer
	Consumers int
	Active    string // tag of the consumer that a queue with a single active one delivers to; "" for none
}

// askQueues writes a line for each queue of a virtual host. A queue that was deleted
// since it was listed has none. One that cannot answer is asked again for two seconds: a
// quorum queue has no leader for a moment after it was declared.
const askQueues = `Ask = fun(Q) -> case amqqueue:get_type(Q) of
		rabbit_quorum_queue ->
			{ok, {_, {R, M, C, S}}, _} = ra:local_query(amqqueue:get_pid(Q), fun(F) -> {rabbit_fifo:query_messages_ready(F),
				rabbit_fifo:query_messages_total(F), rabbit_fifo:query_consumer_count(F), rabbit_fifo:query_single_active_consumer(F)} end),
			case S of {value, {T, _}} -> [R, M, C, T]; _ -> [R, M, C, ""] end;
		_ -> [V || {_, V} <- rabbit_amqqueue:info(Q, [messages_ready, messages, consumers, single_active_consumer_tag])] end end,
	Tell = fun Tell(Q, Again) -> Name = amqqueue:get_name(Q), try io_lib:format("~s ~b ~b ~b ~s|", [element(4, Name) | Ask(Q)])
		catch _:Why -> case rabbit_amqqueue:exists(Name) of
			false -> "";
			true when Again > 0 -> timer:sleep(20), Tell(Q, Again - 1);
			true -> exit({Name, Why}) end end end,
	lists:flatten([Tell(Q, 100) || Q <- rabbit_amqqueue:list(<<%q>>)]).`

// Queues returns the queues of a virtual host by their names. It asks the queues
// themselves: what the management API says is seconds old, and so is what the broker's
// list of queues says of quorum queues.
func (b *Broker) Queues(vhost string) (map[string]Queue, error) {
	text, err := b.Eval(fmt.Sprintf(askQueues, vhost))
	if err != nil {
		return nil, err
	}
	queues := map[string]Queue{}
	for line := range strings.SplitSeq(strings.Trim(text, `"[]`), "|") {
		if line == "" {
			continue
		}
		words := strings.SplitN(line, " ", 5)
		if len(words) < 5 {
			return nil, fmt.Errorf("queues with their state: %q", text)
		}
		q := Queue{Active: words[4]}
		if _, err := fmt.Sscan(strings.Join(words[1:4], " "), &q.Ready, &q.Messages, &q.Consumers); err != nil {
			return nil, fmt.Errorf("queues with their state: %q: %w", text, err)
		}
		queues[words[0]] = q
	}
	return queues, nil
}

// Depths returns how many messages the queues of a virtual host hold, ready or not.
func (b *Broker) Depths(vhost string) (map[string]int, error) {
	queues, err := b.Queues(vhost)
	depths := make(map[string]int, len(queues))
	for name, q := range queues {
		depths[name] = q.Messages
	}
	return depths, err
}
