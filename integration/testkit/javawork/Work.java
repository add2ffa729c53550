import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

/** Does what each line of its input says, and prints a figure that it knows by construction or by its own clock. */
public class Work {
    static volatile Object keep;
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock();
    static volatile boolean goes; // the main thread goes to a lock

    static long small(int times) {
        for (int i = 0; i < times; i++) keep = new byte[1000];
        return 1016L * times;
    }

    static long large(int times) {
        for (int i = 0; i < times; i++) keep = new byte[3000000];
        return 3000016L * times;
    }

    static long enter() {
        long begin = System.nanoTime();
        synchronized (monitor) {
            return System.nanoTime() - begin;
        }
    }

    static long acquire() {
        long begin = System.nanoTime();
        lock.lock();
        try {
            return System.nanoTime() - begin;
        } finally {
            lock.unlock();
        }
    }

    /** Has another thread hold both locks until the calling thread waits for one, and then for some time. */
    static void holdAway(int milliseconds) throws Exception {
        Thread waiter = Thread.currentThread();
        CountDownLatch held = new CountDownLatch(1);
        goes = false;
        new Thread(() -> {
            synchronized (monitor) {
                lock.lock();
                try {
                    held.countDown();
                    while (!goes || waiter.getState() == Thread.State.RUNNABLE) Thread.sleep(1);
                    Thread.sleep(milliseconds);
                } catch (InterruptedException e) {
                    throw new RuntimeException(e);
                } finally {
                    lock.unlock();
                }
            }
        }).start();
        held.await();
        goes = true;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            int n = Integer.parseInt(words[1]);
            long figure = 0;
            switch (words[0]) {
                case "small": figure = small(n); break;
                case "large": figure = large(n); break;
                case "enter": holdAway(n); figure = enter(); break;
                case "acquire": holdAway(n); figure = acquire(); break;
            }
            System.out.println(figure);
        }
    }
}
