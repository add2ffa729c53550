/** Threads that wait in interpreted methods. */
public class Waits {
    static void inner(Object lock) throws Exception {
        synchronized (lock) {
            System.out.println("ready");
            lock.wait();
        }
    }

    static void sleeper() {
        try {
            Thread.sleep(3600_000);
        } catch (InterruptedException e) {
            return;
        }
    }

    public static void main(String[] args) throws Exception {
        new Thread(Waits::sleeper, "sleeper").start();
        Thread.sleep(300);
        inner(new Object());
    }
}
