package rabbit

import "context"

// Depth returns how many messages are ready in a queue, without taking any:
// those that workers hold are not among them.
func Depth(ctx context.Context, dsn, queue string) (int, error) {
	dial := dialer{dsn: dsn, name: ThisProcess("tool").connection("depth"), timing: Timing{}.orDefaults()}
	conn, s, err := dial.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer closeBounded(ctx, conn, s)
	release := context.AfterFunc(ctx, s.abort)
	defer release()

	channel, err := conn.Channel()
	if err != nil {
		return 0, fault("open a channel", err)
	}
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0, fault("look at queue "+queue, err)
	}
	return q.Messages, nil
}
